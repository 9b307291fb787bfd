// Package generated holds the schemas of the API's Go types, as k8s.io/api documents them.
package generated
