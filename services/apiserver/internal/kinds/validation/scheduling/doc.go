// Package scheduling validates where pods may run: affinity, tolerations and topology spread.
package scheduling
