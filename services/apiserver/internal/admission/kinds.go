package admission

import "github.com/garboard/garboard/libs/scheme"

// Kinds is what the registry does with objects of any kind, for plugins that change objects by rules of
// users.
type Kinds interface {
	// Default sets the fields of obj that a client may omit. An object of a kind that is not stored
	// stays as it is.
	Default(obj scheme.Object)
	// Convert returns obj as another kind that is stored as the same one. It leaves obj as it is.
	Convert(obj scheme.Object, to *scheme.Kind) (scheme.Object, error)
}

// Equivalents returns the kinds that show the objects of kind, and have its subresource if that is not
// empty: kind itself is the first.
func Equivalents(table *scheme.Table, kind *scheme.Kind, subresource string) []*scheme.Kind {
	found := []*scheme.Kind{kind}
	for _, other := range table.Kinds() {
		if other != kind && !kind.Virtual && !other.Virtual && other.Storage == kind.Storage &&
			(subresource == "" || other.HasSubresource(subresource)) {
			found = append(found, other)
		}
	}
	return found
}
