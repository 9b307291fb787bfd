// Package strategy holds what the generic registry must know about each kind. That is how its
// objects are defaulted, prepared and validated on creation and update, which fields select them,
// and how they are deleted. All lists the kinds.
package strategy
