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
// first use and then stays the same: the library compares only objects of one schema. A write that began
// under another definition of a kind has a schema of its own.
type customTypes struct {
	table      *scheme.Table
	definition func(*scheme.Kind) *kinds.Definition

	mu     sync.RWMutex
	served map[schema.GroupVersionKind]*kinds.Definition // as found on first use
	known  map[*kinds.Definition]customType
}

type customType struct {
	typed.ParseableType
	err error
}

// customTypesOf returns the types of the custom kinds of a table. It takes over what was known before of those
// whose definition is the same.
func customTypesOf(table *scheme.Table, definition func(*scheme.Kind) *kinds.Definition, before *customTypes) *customTypes {
	c := &customTypes{
		table: table, definition: definition,
		served: map[schema.GroupVersionKind]*kinds.Definition{}, known: map[*kinds.Definition]customType{},
	}
	if before == nil {
		return c
	}
	before.mu.RLock()
	defer before.mu.RUnlock()
	for of, known := range before.known {
		if of == nil {
			continue
		}
		if kind := table.Kind(of.GroupVersionKind); kind != nil && kind.Custom && definition(kind) == of {
			c.known[of] = known
		}
	}
	return c
}

// find returns the type of a custom kind: by the schema of the definition of, if that is of this kind, else by
// that of the served one. metadata has the types of an object's metadata. The error is the library's for a
// version that is not served, whose owners are forgotten, or says what is wrong with the schema.
func (c *customTypes) find(gvk schema.GroupVersionKind, of *kinds.Definition, metadata []smd.TypeDef) (typed.ParseableType, error) {
	if of == nil || of.GroupVersionKind != gvk {
		kind := c.table.Kind(gvk)
		if kind == nil || !kind.Custom {
			return typed.ParseableType{}, runtime.NewNotRegisteredErrForKind("the served kinds", gvk)
		}
		of = c.servedOf(kind)
	}
	c.mu.RLock()
	known, ok := c.known[of]
	c.mu.RUnlock()
	if ok {
		return known.ParseableType, known.err
	}
	found := customTypeOf(gvk, of, metadata)
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.known[of]; ok {
		return known.ParseableType, known.err
	}
	c.known[of] = found
	return found.ParseableType, found.err
}

// servedOf returns the definition of a served kind, always the same one.
func (c *customTypes) servedOf(kind *scheme.Kind) *kinds.Definition {
	c.mu.RLock()
	known, ok := c.served[kind.GroupVersionKind]
	c.mu.RUnlock()
	if ok {
		return known
	}
	found := c.definition(kind)
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.served[kind.GroupVersionKind]; ok {
		return known
	}
	c.served[kind.GroupVersionKind] = found
	return found
}

// customTypeOf reads the schema of a kind. Without one, lists have no keys.
func customTypeOf(gvk schema.GroupVersionKind, definition *kinds.Definition, metadata []smd.TypeDef) customType {
	if definition == nil || definition.OpenAPI == nil {
		return customType{ParseableType: typed.DeducedParseableType}
	}
	models := map[string]*spec.Schema{gvk.String(): definition.OpenAPI.Schema(false)}
	converted, err := schemaconv.ToSchemaFromOpenAPI(models, definition.OpenAPI.PreserveUnknownFields)
	if err != nil {
		return customType{err: fmt.Errorf("reading the schema of %s: %w", gvk, err)}
	}
	parser := typed.Parser{Schema: smd.Schema{Types: append(converted.Types, metadata...)}}
	return customType{ParseableType: parser.Type(gvk.String())}
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
