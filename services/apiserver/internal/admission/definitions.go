package admission

import "k8s.io/apimachinery/pkg/util/managedfields"

// Definitions are what the definitions of kinds do with objects, for plugins that apply rules of users
// to them.
type Definitions interface {
	Kinds
	// TypeConverter merges what is applied into objects, by the schemas of their kinds.
	managedfields.TypeConverter
}
