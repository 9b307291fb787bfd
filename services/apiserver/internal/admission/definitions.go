package admission

import (
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/garboard/garboard/libs/scheme"
)

// Definitions are what the definitions of kinds do with objects, for plugins that apply rules of users
// to them.
type Definitions interface {
	// Default sets the fields of an object that a client may omit.
	Default(obj scheme.Object)
	// Convert returns an object in the form of another kind that is stored as the same kind; the object
	// itself if it is of that kind. It does not change the object.
	Convert(obj scheme.Object, to *scheme.Kind) (scheme.Object, error)
	// TypeConverter merges what is applied into objects, by the schemas of their kinds.
	managedfields.TypeConverter
}
