package columns

import (
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
)

// aged is the layout of a kind for which only name and age are shown.
func aged() layout {
	return of([]metav1.TableColumnDefinition{name(), age()}, func(obj scheme.Object, now time.Time) []any {
		return []any{obj.GetName(), ageOf(obj, now)}
	})
}

func resourceClaims() layout {
	return of([]metav1.TableColumnDefinition{
		name(), text("State", "A summary of the current state (allocated, pending, reserved, etc.)."), age(),
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
		return []any{c.Name, strings.Join(states, ","), ageOf(c, now)}
	})
}

func resourceSlices() layout {
	doc := resourcev1.ResourceSliceSpec{}.SwaggerDoc()
	return of([]metav1.TableColumnDefinition{
		name(),
		text("Node", doc["nodeName"]),
		text("Driver", doc["driver"]),
		text("Pool", resourcev1.ResourcePool{}.SwaggerDoc()["name"]),
		age(),
	}, func(s *resourcev1.ResourceSlice, now time.Time) []any {
		return []any{s.Name, deref(s.Spec.NodeName, ""), s.Spec.Driver, s.Spec.Pool.Name, ageOf(s, now)}
	})
}

func deviceTaintRules() layout {
	doc := resourcev1.DeviceTaint{}.SwaggerDoc()
	return of([]metav1.TableColumnDefinition{
		name(),
		text("Key", doc["key"]),
		text("Value", doc["value"]),
		text("Effect", doc["effect"]),
		text("TimeAdded", doc["timeAdded"]),
		age(),
	}, func(r *resourcev1.DeviceTaintRule, now time.Time) []any {
		taint, added := r.Spec.Taint, ""
		if taint.TimeAdded != nil {
			added = since(taint.TimeAdded.Time, now)
		}
		return []any{r.Name, taint.Key, taint.Value, string(taint.Effect), added, ageOf(r, now)}
	})
}
