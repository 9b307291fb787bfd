// Package strategy holds what the generic registry must know of each kind: how an object is
// defaulted, prepared and validated when it is created and updated, which fields select it,
// and how it is deleted. All lists the kinds.
package strategy
