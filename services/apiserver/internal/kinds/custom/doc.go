// Package custom makes definitions of kinds from CustomResourceDefinitions: what a schema prunes, fills in
// and accepts, how its objects are printed, selected and scaled. The rules of schemas are those of
// k8s.io/apiextensions-apiserver; see docs/adr/0012-custom-resources.md.
package custom
