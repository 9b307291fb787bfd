// Package builtin lists the definitions of the kinds that every apiserver serves.
package builtin
