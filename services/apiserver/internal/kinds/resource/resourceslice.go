package resource

import (
	"fmt"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// ResourceSlice defines the kind ResourceSlice.
func ResourceSlice() *kinds.Definition {
	return kinds.Of[*resourcev1.ResourceSlice]{
		Columns: resourceSliceColumns(),
		Level:   kinds.Generic,
		Default: defaultResourceSlice,
		Create: func(s *resourcev1.ResourceSlice) {
			s.Generation = 1
			withoutDisabled(&s.Spec, nil)
		},
		Validate: validateSlice,
		Update: kinds.ChangeOf[*resourcev1.ResourceSlice]{
			Prepare: func(s, old *resourcev1.ResourceSlice) {
				if !equality.Semantic.DeepEqual(s.Spec, old.Spec) {
					s.Generation = old.Generation + 1
				}
				withoutDisabled(&s.Spec, &old.Spec) // Kubernetes counts what it drops as a change.
			},
			Validate: validateSliceUpdate,
		},
		Warnings: func(s *resourcev1.ResourceSlice) []string {
			if name := s.Spec.Driver; name != strings.ToLower(name) {
				return []string{fmt.Sprintf("spec.driver: driver names should be lowercase; %q contains uppercase characters", name)}
			}
			return nil
		},
		FieldLabels: []string{resourcev1.ResourceSliceSelectorNodeName, resourcev1.ResourceSliceSelectorDriver, resourcev1.ResourceSliceSelectorPoolName},
		Fields: func(s *resourcev1.ResourceSlice) fields.Set {
			node := ""
			if s.Spec.NodeName != nil {
				node = *s.Spec.NodeName
			}
			return fields.Set{
				resourcev1.ResourceSliceSelectorNodeName: node, resourcev1.ResourceSliceSelectorDriver: s.Spec.Driver,
				resourcev1.ResourceSliceSelectorPoolName: s.Spec.Pool.Name,
			}
		},
		ReturnDeleted: true,
	}.Definition()
}

// defaultResourceSlice sets the defaults of a driver's list of devices.
func defaultResourceSlice(s *resourcev1.ResourceSlice) {
	for i := range s.Spec.Devices {
		for j := range s.Spec.Devices[i].Taints {
			deviceTaint(&s.Spec.Devices[i].Taints[j])
		}
	}
}

func resourceSliceColumns() *columns.Layout {
	doc := resourcev1.ResourceSliceSpec{}.SwaggerDoc()
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("Node", doc["nodeName"]),
		columns.Text("Driver", doc["driver"]),
		columns.Text("Pool", resourcev1.ResourcePool{}.SwaggerDoc()["name"]),
		columns.Age(),
	}, func(s *resourcev1.ResourceSlice, now time.Time) []any {
		return []any{s.Name, columns.Deref(s.Spec.NodeName, ""), s.Spec.Driver, s.Spec.Pool.Name, columns.AgeOf(s, now)}
	})
}
