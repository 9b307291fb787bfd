package kinds

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// Catalog is the set of served kinds with their definitions. It changes while the apiserver runs:
// the parts of the apiserver that depend on the set follow its Table. It is safe for concurrent use.
type Catalog struct {
	table *scheme.Table
	// answers are the definitions of kinds that only subresources have, such as Scale.
	answers map[schema.GroupVersionKind]*Definition

	mu    sync.Mutex // held while definitions is replaced
	known atomic.Pointer[map[*scheme.Kind]*Definition]
}

// NewCatalog returns a catalog of the kinds of table, of which it becomes the only writer. builtin
// has the definitions of those that are stored, by group, version and kind. It may also have those
// of other kinds: of virtual ones, and of those that only subresources have, such as Scale.
func NewCatalog(table *scheme.Table, builtin map[schema.GroupVersionKind]*Definition) (*Catalog, error) {
	known := map[*scheme.Kind]*Definition{}
	for _, kind := range table.Kinds() {
		definition := builtin[kind.GroupVersionKind]
		switch {
		case definition != nil:
			definition.Kind = kind
		case kind.Virtual:
			definition = &Definition{Kind: kind}
		default:
			return nil, fmt.Errorf("building the catalog of kinds: %s has no definition", kind.GroupVersionKind)
		}
		known[kind] = definition
	}
	answers := maps.Clone(builtin)
	maps.DeleteFunc(answers, func(gvk schema.GroupVersionKind, _ *Definition) bool { return table.Kind(gvk) != nil })
	c := &Catalog{table: table, answers: answers}
	c.known.Store(&known)
	return c, nil
}

// Table returns what clients know of the kinds. Only the catalog may change it.
func (c *Catalog) Table() *scheme.Table { return c.table }

// Of returns the definition of a kind; nil if the kind is not served, or no longer.
func (c *Catalog) Of(kind *scheme.Kind) *Definition { return (*c.known.Load())[kind] }

// Find returns the definition of a group, version and kind; nil if it is not served.
func (c *Catalog) Find(gvk schema.GroupVersionKind) *Definition { return c.Of(c.table.Kind(gvk)) }

// Columns returns the columns of a kind, which may be one that only subresources have; nil if it has
// none of its own.
func (c *Catalog) Columns(gvk schema.GroupVersionKind) *columns.Layout {
	if definition := c.Find(gvk); definition != nil {
		return definition.Columns
	}
	if definition := c.answers[gvk]; definition != nil {
		return definition.Columns
	}
	return nil
}

// Install adds kinds, all at once or, on an error, none. It returns when requests for them are
// resolved; their watch caches fill and their documents change a moment later. The catalog takes
// ownership of the definitions. The errors are those of scheme.Table.Install.
func (c *Catalog) Install(definitions ...*Definition) error { return c.Replace(nil, definitions) }

// Replace removes custom kinds and adds others as Install does, all at once or, on an error, nothing. A
// kind that is in both lists stays with what is known of it, its watch cache too, and gets its new
// definition.
func (c *Catalog) Replace(gone []*scheme.Kind, definitions []*Definition) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.known.Load()
	known, added := maps.Clone(*before), make([]*scheme.Kind, 0, len(definitions))
	for _, kind := range gone {
		if !kind.Custom {
			return fmt.Errorf("replacing the kind %s: it is built in", kind.GroupVersionKind)
		}
	}
	for _, definition := range definitions {
		if definition.Kind == nil {
			return fmt.Errorf("installing a kind: the definition names none")
		}
		known[definition.Kind], added = definition, append(added, definition.Kind)
	}
	// Whoever learns of a kind from the table finds its definition.
	c.known.Store(&known)
	if err := c.table.Replace(gone, added); err != nil {
		c.known.Store(before)
		return err
	}
	served := maps.Clone(known)
	maps.DeleteFunc(served, func(kind *scheme.Kind, _ *Definition) bool { return !c.table.Serves(kind) })
	c.known.Store(&served)
	return nil
}

// Remove removes a custom kind, and every kind that is stored as it. What etcd holds of them stays
// there. It reports whether the catalog had such a kind.
func (c *Catalog) Remove(gvk schema.GroupVersionKind) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kind := c.table.Kind(gvk); kind == nil || !kind.Custom || !c.table.Remove(gvk) {
		return false
	}
	known := maps.Clone(*c.known.Load())
	maps.DeleteFunc(known, func(kind *scheme.Kind, _ *Definition) bool { return !c.table.Serves(kind) })
	c.known.Store(&known)
	return true
}

// Defaults returns the function that completes a stored kind's objects when they are read from etcd:
// they may have been written by another program, as another version, or before a field existed. Its
// error means that the object cannot be read at present. It returns nil if there is none.
func (c *Catalog) Defaults(kind *scheme.Kind) func(scheme.Object) error {
	definition := c.Find(kind.Storage)
	switch {
	case definition == nil:
		return nil
	case definition.Restore != nil:
		return definition.Restore
	case definition.Default == nil:
		return nil
	}
	return func(obj scheme.Object) error {
		definition.Default(obj)
		return nil
	}
}
