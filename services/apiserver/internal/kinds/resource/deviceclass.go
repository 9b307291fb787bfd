package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// The kinds of resource.k8s.io are generic: the expressions that select devices are not compiled,
// and the properties of devices are not checked.

// DeviceClass defines the kind DeviceClass.
func DeviceClass() *kinds.Definition {
	return kinds.Of[*resourcev1.DeviceClass]{
		Columns:  columns.Aged(),
		Level:    kinds.Generic,
		Create:   func(c *resourcev1.DeviceClass) { c.Generation = 1 },
		Validate: validateClass,
		Update: kinds.ChangeOf[*resourcev1.DeviceClass]{
			Prepare: func(c, old *resourcev1.DeviceClass) {
				if !equality.Semantic.DeepEqual(c.Spec, old.Spec) {
					c.Generation = old.Generation + 1
				}
			},
			Validate: validateClassUpdate,
		},
		ReturnDeleted: true,
	}.Definition()
}
