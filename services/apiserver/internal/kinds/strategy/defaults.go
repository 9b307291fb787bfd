package strategy

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
)

// Defaults returns, for each kind with optional fields, the function that sets its defaults (see
// All). Objects read from etcd need it too: they may have been written by another program, or
// before a field existed.
func Defaults() map[schema.GroupVersionKind]func(scheme.Object) {
	found := map[schema.GroupVersionKind]func(scheme.Object){}
	for kind, s := range All() {
		if s.Default != nil {
			found[kind] = s.Default
		}
	}
	return found
}
