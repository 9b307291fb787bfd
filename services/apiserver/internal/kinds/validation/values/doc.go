// Package values validates single values: numbers, names and members of a set.
package values
