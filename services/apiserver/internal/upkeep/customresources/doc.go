// Package customresources keeps the catalog of kinds and the status of CustomResourceDefinitions in step:
// it accepts names, installs what a definition serves, and deletes its objects with it.
package customresources
