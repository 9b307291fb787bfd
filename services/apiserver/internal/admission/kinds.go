package admission

import "github.com/garboard/garboard/libs/scheme"

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
