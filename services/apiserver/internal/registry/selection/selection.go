// Package selection tells which objects a list or a watch selects by its labels and fields.
package selection

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// nodeNameField is the field that lets a watch use the scope view of a feed.
const nodeNameField = "spec.nodeName"

// Selection is what a list or watch selects.
type Selection struct {
	labels labels.Selector
	fields fields.Selector
	// values returns an object's selectable fields; nil if fields selects everything.
	values func(scheme.Object) (fields.Set, error)
	view   fabric.View
}

// View returns the narrowest view of the feed that contains everything selected.
func (s Selection) View() fabric.View { return s.view }

// All reports whether the selection includes everything in the view.
func (s Selection) All() bool { return s.labels.Empty() && s.fields.Empty() }

// Matches reports whether a stored object is selected. An object whose fields cannot be read, since it
// cannot be converted, counts as selected: its reader gets that error.
func (s Selection) Matches(obj scheme.Object) bool {
	if obj == nil {
		return false
	}
	if !s.labels.Empty() && !s.labels.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	if s.fields.Empty() {
		return true
	}
	values, err := s.values(obj)
	return err != nil || s.fields.Matches(values)
}

// Keep returns Matches for the store; nil if everything is selected.
func (s Selection) Keep() func(scheme.Object) bool {
	if s.All() {
		return nil
	}
	return s.Matches
}

// Everything returns the selection of all objects in a namespace, or of all objects if it is empty.
func Everything(namespace string) Selection {
	return Selection{labels: labels.Everything(), fields: fields.Everything(), view: fabric.View{Namespace: namespace}}
}

// Parse parses the selectors of opts for the objects of a definition's kind in a namespace, or in all
// if it is empty. Its errors are API errors of reason BadRequest.
func Parse(of *kinds.Definition, namespace string, opts metav1.ListOptions) (Selection, error) {
	s := Everything(namespace)
	var err error
	if opts.LabelSelector != "" {
		if s.labels, err = labels.Parse(opts.LabelSelector); err != nil {
			return s, apierrors.NewBadRequest(err.Error())
		}
	}
	if opts.FieldSelector == "" {
		return s, nil
	}
	if s.fields, err = fields.ParseSelector(opts.FieldSelector); err != nil {
		return s, apierrors.NewBadRequest(err.Error())
	}
	s.fields, err = s.fields.Transform(func(label, value string) (string, string, error) {
		if label == "metadata.name" || label == "metadata.namespace" || slices.Contains(of.FieldLabels, label) {
			return label, value, nil
		}
		if len(of.FieldLabels) == 0 {
			return "", "", apierrors.NewBadRequest(fmt.Sprintf("%q is not a known field selector: only %q, %q", label, "metadata.name", "metadata.namespace"))
		}
		return "", "", apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", label))
	})
	if err != nil {
		return s, err
	}
	s.values = func(obj scheme.Object) (fields.Set, error) { return fieldsOf(of, obj) }
	if name, ok := s.fields.RequiresExactMatch("metadata.name"); ok && (namespace != "" || !of.Namespaced) {
		s.view.Name = name
	} else if node, ok := s.fields.RequiresExactMatch(nodeNameField); ok && of.Scope != nil && namespace == "" {
		if node == "" {
			node = scheme.Unscoped
		}
		s.view.Scope = node
	}
	return s, nil
}

// fieldsOf returns a stored object's selectable fields.
func fieldsOf(of *kinds.Definition, obj scheme.Object) (fields.Set, error) {
	set := fields.Set{}
	if of.Fields != nil {
		shown, err := of.FromStored.One(obj)
		if err != nil {
			return nil, err
		}
		set = of.Fields(shown)
	}
	set["metadata.name"] = obj.GetName()
	if of.Namespaced {
		set["metadata.namespace"] = obj.GetNamespace()
	}
	return set, nil
}
