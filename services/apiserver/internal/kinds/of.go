package kinds

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// Of is a Definition in terms of the kind's Go type.
type Of[T scheme.Object] struct {
	Level               Level // Generic unless set.
	Columns             *columns.Layout
	Default             func(T)
	Create              func(T)
	Author              func(T, authn.User)
	Validate            func(T) field.ErrorList
	Canonicalize        func(T)
	Update              ChangeOf[T]
	Subresources        map[string]ChangeOf[T]
	Warnings            func(T) []string
	CreationWarnings    func(T) []string
	ReplacedWarnings    func(T) []string
	FieldLabels         []string
	Fields              func(T) fields.Set
	AllowCreateOnUpdate bool
	ConditionalUpdate   bool
	Obeyed              bool
	Costly              bool
	ReturnDeleted       bool
	Grace               func(T, *metav1.DeleteOptions) *int64
	Held                func(T) bool
	Terminating         func(T)
	Replicas            *Replicas
}

// Definition returns the definition that the generic code of the apiserver uses.
func (o Of[T]) Definition() *Definition {
	s := &Definition{
		Level:   cmp.Or(o.Level, Generic),
		Columns: o.Columns,
		Default: untyped(o.Default), PrepareForCreate: untyped(o.Create), Canonicalize: untyped(o.Canonicalize),
		Terminating: untyped(o.Terminating),
		Validate:    returning(o.Validate), Warnings: returning(o.Warnings), CreationWarnings: returning(o.CreationWarnings),
		ReplacedWarnings: returning(o.ReplacedWarnings), Fields: returning(o.Fields), Held: returning(o.Held),
		Update: o.Update.untyped(), Subresources: map[string]Change{},
		FieldLabels: o.FieldLabels, AllowCreateOnUpdate: o.AllowCreateOnUpdate, ConditionalUpdate: o.ConditionalUpdate,
		Obeyed: o.Obeyed, Costly: o.Costly,
		ReturnDeleted: o.ReturnDeleted, Replicas: o.Replicas,
	}
	if s.Update.Warnings == nil && s.Warnings != nil {
		s.Update.Warnings = func(obj, _ scheme.Object) []string { return s.Warnings(obj) }
	}
	for name, c := range o.Subresources {
		s.Subresources[name] = c.untyped()
	}
	if o.Author != nil {
		s.Author = func(obj scheme.Object, user authn.User) { o.Author(obj.(T), user) }
	}
	if o.Grace != nil {
		s.Grace = func(obj scheme.Object, opts *metav1.DeleteOptions) *int64 { return o.Grace(obj.(T), opts) }
	}
	return s
}

// ChangeOf is a Change in terms of the kind's Go type.
type ChangeOf[T scheme.Object] struct {
	Prepare  func(obj, old T)
	Validate func(obj, old T) field.ErrorList
	Warnings func(obj, old T) []string
}

// IfSpecChanged returns the warnings about a changed object that it would get if it were new: none unless
// its generation, which counts the changes of its spec, has changed.
func IfSpecChanged[T scheme.Object](warnings func(T) []string) func(obj, old T) []string {
	return func(obj, old T) []string {
		if obj.GetGeneration() == old.GetGeneration() {
			return nil
		}
		return warnings(obj)
	}
}

func (c ChangeOf[T]) untyped() Change {
	var out Change
	if c.Prepare != nil {
		out.Prepare = func(obj, old scheme.Object) { c.Prepare(obj.(T), old.(T)) }
	}
	if c.Warnings != nil {
		out.Warnings = func(obj, old scheme.Object) []string { return c.Warnings(obj.(T), old.(T)) }
	}
	if c.Validate != nil {
		out.Validate = func(obj, old scheme.Object) field.ErrorList { return c.Validate(obj.(T), old.(T)) }
	}
	return out
}

func untyped[T scheme.Object](f func(T)) func(scheme.Object) {
	if f == nil {
		return nil
	}
	return func(obj scheme.Object) { f(obj.(T)) }
}

func returning[T scheme.Object, R any](f func(T) R) func(scheme.Object) R {
	if f == nil {
		return nil
	}
	return func(obj scheme.Object) R { return f(obj.(T)) }
}
