package registry

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
)

// nodeNameField is the field that lets a watch use the scope view of a feed.
const nodeNameField = "spec.nodeName"

// selection is what a list or watch selects.
type selection struct {
	labels labels.Selector
	fields fields.Selector
	// values returns an object's selectable fields; nil if fields selects everything.
	values func(scheme.Object) fields.Set
	// view is the narrowest view of the feed that contains everything selected.
	view fabric.View
}

// all reports whether the selection includes everything in the view.
func (s selection) all() bool { return s.labels.Empty() && s.fields.Empty() }

// matches reports whether a stored object is selected.
func (s selection) matches(obj scheme.Object) bool {
	if obj == nil {
		return false
	}
	if !s.labels.Empty() && !s.labels.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	return s.fields.Empty() || s.fields.Matches(s.values(obj))
}

// keep returns matches for the store; nil if everything is selected.
func (s selection) keep() func(scheme.Object) bool {
	if s.all() {
		return nil
	}
	return s.matches
}

// selection parses the selectors of opts.
func (r *Resource) selection(namespace string, opts metav1.ListOptions) (selection, error) {
	s := selection{labels: labels.Everything(), fields: fields.Everything(), view: fabric.View{Namespace: namespace}}
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
		if label == "metadata.name" || label == "metadata.namespace" || slices.Contains(r.strategy.FieldLabels, label) {
			return label, value, nil
		}
		if len(r.strategy.FieldLabels) == 0 {
			return "", "", apierrors.NewBadRequest(fmt.Sprintf("%q is not a known field selector: only %q, %q", label, "metadata.name", "metadata.namespace"))
		}
		return "", "", apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", label))
	})
	if err != nil {
		return s, err
	}
	s.values = r.fieldsOf
	if name, ok := s.fields.RequiresExactMatch("metadata.name"); ok && (namespace != "" || !r.kind.Namespaced) {
		s.view.Name = name
	} else if node, ok := s.fields.RequiresExactMatch(nodeNameField); ok && r.kind.Scope != nil && namespace == "" {
		if node == "" {
			node = scheme.Unscoped
		}
		s.view.Scope = node
	}
	return s, nil
}

// fieldsOf returns a stored object's selectable fields.
func (r *Resource) fieldsOf(obj scheme.Object) fields.Set {
	set := fields.Set{}
	if r.strategy.Fields != nil {
		set = r.strategy.Fields(r.present(obj))
	}
	set["metadata.name"] = obj.GetName()
	if r.kind.Namespaced {
		set["metadata.namespace"] = obj.GetNamespace()
	}
	return set
}
