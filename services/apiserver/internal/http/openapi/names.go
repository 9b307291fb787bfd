package openapi

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/garboard/garboard/libs/scheme"
)

// gvkExtension names, on a definition, the kinds that have its type and, on an operation, the kind
// that it concerns.
const gvkExtension = "x-kubernetes-group-version-kind"

// names maps the model of a Go type to the kinds that have the type.
type names map[string][]schema.GroupVersionKind

func newNames(table *scheme.Table) names {
	n := names{}
	for gvk, goType := range table.Scheme().AllKnownTypes() {
		if gvk.Version == "__internal" {
			continue
		}
		model := util.GetCanonicalTypeName(reflect.New(goType).Interface())
		n[model] = append(n[model], gvk)
	}
	for _, gvks := range n {
		slices.SortFunc(gvks, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	}
	return n
}

// definition returns a model's name in the documents, which is the type's own name, and the kinds
// that have the type.
func (n names) definition(model string) (string, spec.Extensions) {
	name := model[strings.LastIndex(model, "/")+1:]
	gvks := n[model]
	if len(gvks) == 0 {
		return name, nil
	}
	list := make([]any, 0, len(gvks))
	for _, gvk := range gvks {
		list = append(list, gvkValue(gvk))
	}
	return name, spec.Extensions{gvkExtension: list}
}

func gvkValue(gvk schema.GroupVersionKind) map[string]any {
	return map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}
}
