package registry

import (
	"context"

	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// definitions implements admission.Definitions.
type definitions struct {
	catalog *kinds.Catalog
	managedfields.TypeConverter
}

func (d definitions) Default(obj scheme.Object) { d.catalog.Default(obj) }

func (d definitions) Convert(obj scheme.Object, to *scheme.Kind) (scheme.Object, error) {
	if to.Holds(obj) {
		return obj, nil
	}
	return d.catalog.Convert(context.Background(), obj, to)
}
