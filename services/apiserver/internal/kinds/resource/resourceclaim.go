package resource

import (
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// ResourceClaim defines the kind ResourceClaim.
func ResourceClaim() *kinds.Definition {
	type claim = *resourcev1.ResourceClaim
	status := kinds.ChangeOf[claim]{
		Prepare: func(c, old claim) {
			c.Spec = *old.Spec.DeepCopy()
			kinds.KeepMetadata(c, old)
			withoutSkipped(c.Status.Allocation, old.Status.Allocation)
			forgetReleased(c, old)
		},
		Validate: validateClaimStatus,
	}
	return kinds.Of[claim]{
		Columns: resourceClaimColumns(),
		Level:   kinds.Generic,
		Default: defaultResourceClaim,
		Create: func(c claim) {
			c.Status = resourcev1.ResourceClaimStatus{}
			withoutDerived(&c.Spec.Devices, nil)
		},
		Validate: validateClaim,
		Update: kinds.ChangeOf[claim]{
			Prepare: func(c, old claim) {
				c.Status = *old.Status.DeepCopy()
				withoutDerived(&c.Spec.Devices, &old.Spec.Devices)
			},
			Validate: validateClaimUpdate,
		},
		Subresources:  map[string]kinds.ChangeOf[claim]{"status": status},
		ReturnDeleted: true,
	}.Definition()
}

// defaultResourceClaim sets the defaults of a claim for devices.
func defaultResourceClaim(c *resourcev1.ResourceClaim) {
	deviceClaim(&c.Spec.Devices)
	if c.Status.Allocation == nil {
		return
	}
	for i := range c.Status.Allocation.Devices.Results {
		tolerations(c.Status.Allocation.Devices.Results[i].Tolerations)
	}
}

func resourceClaimColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(), columns.Text("State", "A summary of the current state (allocated, pending, reserved, etc.)."), columns.Age(),
	}, func(c *resourcev1.ResourceClaim, now time.Time) []any {
		var states []string
		if c.DeletionTimestamp != nil {
			states = append(states, "deleted")
		}
		switch {
		case c.Status.Allocation == nil && c.DeletionTimestamp == nil:
			states = append(states, "pending")
		case c.Status.Allocation == nil:
		case len(c.Status.ReservedFor) > 0:
			states = append(states, "allocated", "reserved")
		default:
			states = append(states, "allocated")
		}
		return []any{c.Name, strings.Join(states, ","), columns.AgeOf(c, now)}
	})
}
