package strategy

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
)

// Defaults are what fills in the fields that may be left out of the kinds that have such, as All
// knows them. What is read from etcd needs it too: it may have been written by another program, or
// before a field was there.
func Defaults() map[schema.GroupVersionKind]func(scheme.Object) {
	found := map[schema.GroupVersionKind]func(scheme.Object){}
	for kind, s := range All() {
		if s.Default != nil {
			found[kind] = s.Default
		}
	}
	return found
}
