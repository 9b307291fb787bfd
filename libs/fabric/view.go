package fabric

import (
	"cmp"

	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// View is a part of a resource. The zero View is all of it. The fields that are set restrict it to
// a namespace, a name and a scope. For pods a scope is a node, or scheme.Unscoped for pods without
// one.
type View struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Scope     string `json:"scope,omitempty"`
}

// Whole reports whether the view is the whole resource.
func (v View) Whole() bool { return v == View{} }

// Holds reports whether the view holds an object of the resource.
func (v View) Holds(namespace, name, scope string) bool {
	return (v.Namespace == "" || namespace == v.Namespace) &&
		(v.Name == "" || name == v.Name) &&
		(v.Scope == "" || scope == v.Scope)
}

// Covers reports whether a message of the resource is a change in the view. A left message is a
// change only in the scope that the object left.
func (v View) Covers(m *watchv1.Message) bool {
	switch m.GetType() {
	case watchv1.Type_TYPE_PUT, watchv1.Type_TYPE_DELETED:
	case watchv1.Type_TYPE_LEFT:
		if v.Scope == "" {
			return false
		}
	default:
		return false
	}
	return v.Holds(m.GetNamespace(), m.GetName(), cmp.Or(m.GetScope(), scheme.Unscoped))
}

// Prev returns the revision of the last change before m in the view, as far as m tells. If several
// prevs are valid, it returns the lowest, which covers the most.
func (v View) Prev(m *watchv1.Message) int64 {
	switch {
	case m.GetType() == watchv1.Type_TYPE_PROGRESS:
		return m.GetPrevAll()
	case v.Name != "":
		return Always // Every message is the whole state.
	case m.GetType() == watchv1.Type_TYPE_LEFT:
		return m.GetPrevScope() // It is a statement about the scope only.
	case v.Scope != "" && v.Namespace != "":
		return min(m.GetPrevScope(), m.GetPrevNamespace())
	case v.Scope != "":
		return m.GetPrevScope()
	case v.Namespace != "":
		return m.GetPrevNamespace()
	}
	return m.GetPrevAll()
}
