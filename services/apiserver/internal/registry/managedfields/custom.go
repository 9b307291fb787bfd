package managedfields

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// customTypes knows the fields of custom kinds while the table has the same kinds. Each schema is read on
// first use and then stays the same: the library compares only objects of one schema.
type customTypes struct {
	table      *scheme.Table
	definition func(*scheme.Kind) *kinds.Definition

	mu     sync.RWMutex
	byKind map[schema.GroupVersionKind]customType
}

type customType struct {
	typed.ParseableType
	of  *kinds.Definition
	err error
}

// customTypesOf returns the types of the custom ones among kinds. It takes over what was known before of those
// whose definition is the same.
func customTypesOf(table *scheme.Table, served []*scheme.Kind, definition func(*scheme.Kind) *kinds.Definition, before *customTypes) *customTypes {
	c := &customTypes{table: table, definition: definition, byKind: map[schema.GroupVersionKind]customType{}}
	if before == nil {
		return c
	}
	before.mu.RLock()
	defer before.mu.RUnlock()
	for _, kind := range served {
		if known, ok := before.byKind[kind.GroupVersionKind]; ok && known.of == definition(kind) {
			c.byKind[kind.GroupVersionKind] = known
		}
	}
	return c
}

// find returns the type of a custom kind. metadata has the types of an object's metadata. The error is the
// library's for a version that is not served, whose owners are forgotten, or says what is wrong with the schema.
func (c *customTypes) find(gvk schema.GroupVersionKind, metadata []smd.TypeDef) (typed.ParseableType, error) {
	c.mu.RLock()
	known, ok := c.byKind[gvk]
	c.mu.RUnlock()
	if ok {
		return known.ParseableType, known.err
	}
	kind := c.table.Kind(gvk)
	if kind == nil || !kind.Custom {
		return typed.ParseableType{}, runtime.NewNotRegisteredErrForKind("the served kinds", gvk)
	}
	found := customTypeOf(gvk, c.definition(kind), metadata)
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.byKind[gvk]; ok {
		return known.ParseableType, known.err
	}
	c.byKind[gvk] = found
	return found.ParseableType, found.err
}

// customTypeOf reads the schema of a kind. Without one, lists have no keys.
func customTypeOf(gvk schema.GroupVersionKind, definition *kinds.Definition, metadata []smd.TypeDef) customType {
	if definition == nil || definition.OpenAPI == nil {
		return customType{of: definition, ParseableType: typed.DeducedParseableType}
	}
	models := map[string]*spec.Schema{gvk.String(): definition.OpenAPI.Schema(false)}
	converted, err := schemaconv.ToSchemaFromOpenAPI(models, definition.OpenAPI.PreserveUnknownFields)
	if err != nil {
		return customType{of: definition, err: fmt.Errorf("reading the schema of %s: %w", gvk, err)}
	}
	parser := typed.Parser{Schema: smd.Schema{Types: append(converted.Types, metadata...)}}
	return customType{of: definition, ParseableType: parser.Type(gvk.String())}
}

// within returns a type and those to which it refers, with their names, except the library's own, which every
// schema has.
func within(name string, all []smd.TypeDef) []smd.TypeDef {
	byName := map[string]smd.TypeDef{}
	for _, one := range all {
		byName[one.Name] = one
	}
	var found []smd.TypeDef
	var visit func(ref smd.TypeRef)
	add := func(name string) {
		one, ok := byName[name]
		if !ok || len(name) > 1 && name[:2] == "__" {
			return
		}
		delete(byName, name)
		found = append(found, one)
		visit(smd.TypeRef{Inlined: one.Atom})
	}
	visit = func(ref smd.TypeRef) {
		if ref.NamedType != nil {
			add(*ref.NamedType)
		}
		if ref.Inlined.List != nil {
			visit(ref.Inlined.List.ElementType)
		}
		if ref.Inlined.Map != nil {
			for i := range ref.Inlined.Fields {
				visit(ref.Inlined.Fields[i].Type)
			}
			visit(ref.Inlined.Map.ElementType)
		}
	}
	add(name)
	return found
}
