package managedfields

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/openapi/generated"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// types knows the fields of each kind with a Go type: which lists have keys, and what is atomic.
type types struct {
	byKind map[schema.GroupVersionKind]typed.ParseableType
	// metadata are the types of an object's metadata, to which the schemas of custom kinds refer.
	metadata []smd.TypeDef
}

// newTypes reads the definitions of the table's types, and of the API types that only subresources
// have (autoscaling/v1, Scale).
func newTypes(table *scheme.Table) (*types, error) {
	definitions := generated.GetOpenAPIDefinitions(func(name string) spec.Ref {
		return spec.MustCreateRef("#/components/schemas/" + name)
	})
	models := make(map[string]*spec.Schema, len(definitions))
	for name, definition := range definitions {
		models[name] = &definition.Schema
	}
	converted, err := schemaconv.ToSchemaFromOpenAPI(models, false)
	if err != nil {
		return nil, fmt.Errorf("reading the definitions of the served types: %w", err)
	}
	t := &types{byKind: map[schema.GroupVersionKind]typed.ParseableType{}, metadata: within(kinds.ObjectMetaModel, converted.Types)}
	parser := &typed.Parser{Schema: smd.Schema{Types: converted.Types}}
	for _, gvk := range kindsOf(table) {
		obj, err := table.Scheme().New(gvk)
		if err != nil {
			return nil, fmt.Errorf("reading the definition of %s: %w", gvk, err)
		}
		name := util.GetCanonicalTypeName(obj)
		if models[name] == nil {
			return nil, fmt.Errorf("reading the definition of %s: there is no definition of %s", gvk, name)
		}
		t.byKind[gvk] = parser.Type(name)
	}
	return t, nil
}

// kindsOf returns the kinds whose fields have owners.
func kindsOf(table *scheme.Table) []schema.GroupVersionKind {
	var found []schema.GroupVersionKind
	for _, kind := range table.Kinds() {
		if kind.Virtual || kind.Custom {
			continue
		}
		found = append(found, kind.GroupVersionKind)
		if scale := kind.Subresource("scale"); scale != nil && !slices.Contains(found, scale.Kind) {
			found = append(found, scale.Kind)
		}
	}
	return found
}

// converter replaces the library's converter, which reads every object a second time to check it.
type converter struct {
	builtin *types
	custom  *customTypes
	of      *kinds.Definition // counts for its kind; nil for the one that is served
}

// ObjectToTyped returns an object with the fields of its type. An object with a Go type certainly
// has these fields; what a client applies is checked.
func (c converter) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	known, ok := c.builtin.byKind[gvk]
	if !ok {
		var err error
		if known, err = c.custom.find(gvk, c.of, c.builtin.metadata); err != nil {
			return nil, err
		}
	}
	if wanted, ok := obj.(*unstructured.Unstructured); ok {
		return known.FromUnstructured(wanted.UnstructuredContent(), opts...)
	}
	content, err := value.NewValueReflect(obj)
	if err != nil {
		return nil, fmt.Errorf("reading the fields of a %T: %w", obj, err)
	}
	//nolint:staticcheck // Checking a Go struct again costs as much as all the rest.
	return typed.AsTypedUnvalidated(content, known.Schema, known.TypeRef), nil
}

// TypedToObject returns an object without a Go type.
func (c converter) TypedToObject(from *typed.TypedValue) (runtime.Object, error) {
	content, ok := from.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("reading a merged object: it is not a map but a %T", from.AsValue().Unstructured())
	}
	return &unstructured.Unstructured{Object: content}, nil
}
