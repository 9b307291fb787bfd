// Package kinds says what a kind is to the apiserver: a Definition, which generic code asks for
// everything that differs between kinds, and the Catalog, the set of definitions that are served.
// Kinds come and go while the apiserver runs. The folders below define the built-in kinds.
package kinds
