// Package quota charges ResourceQuotas for objects that are about to be written. A quota's
// status.used is kept in etcd. One guarded transaction raises it before the write, so that any
// number of apiservers admitting at once cannot let the sum exceed the hard limit. If the write
// does not happen after all, the usage is given back if that is certain to be right. Otherwise the
// controller corrects it when it recounts.
package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/garboard/garboard/libs/quota"
	"github.com/garboard/garboard/libs/scheme"
)

// Item is an object that is about to be written.
type Item struct {
	Kind *scheme.Kind
	// Object is the new state, Old the present one; nil if there is none.
	Object, Old scheme.Object
	// Observed marks a status update: it is charged but never refused.
	Observed bool
}

// Refusal says why a quota does not allow an item, in Kubernetes' words.
type Refusal struct{ reason string }

func (r *Refusal) Error() string { return r.reason }

func refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// Evaluate returns what item adds to the usage of q: nothing if q does not limit it, a Refusal if q
// does not allow it.
func Evaluate(q *corev1.ResourceQuota, item Item) (corev1.ResourceList, error) {
	if !quota.Matches(q, item.Kind, item.Object) {
		return nil, nil
	}
	covered := quota.Covered(item.Kind, q.Status.Hard)
	if pod, ok := item.Object.(*corev1.Pod); ok {
		if err := quota.Unspecified(pod, covered); err != nil {
			return nil, refuse("failed quota: %s: %v", q.Name, err)
		}
	}
	for _, name := range covered {
		if _, known := q.Status.Used[name]; !known {
			return nil, refuse("status unknown for quota: %s, resources: %s", q.Name, join(covered))
		}
	}
	usage := quota.Usage(item.Kind, item.Object)
	var negative []corev1.ResourceName
	for name, value := range usage {
		if value.Sign() < 0 {
			negative = append(negative, name)
		}
	}
	if len(negative) > 0 {
		slices.Sort(negative)
		return nil, refuse("quota usage is negative for resource(s): %s", join(negative))
	}
	added := corev1.ResourceList{}
	var before corev1.ResourceList
	if item.Old != nil && quota.Matches(q, item.Kind, item.Old) {
		before = quota.Usage(item.Kind, item.Old)
	}
	for _, name := range covered {
		value, ok := usage[name]
		if !ok {
			continue
		}
		value = value.DeepCopy()
		value.Sub(before[name])
		if value.Sign() > 0 { // The controller accounts for lower usage.
			added[name] = value
		}
	}
	if !item.Observed {
		if err := exceeds(q, added); err != nil {
			return nil, err
		}
	}
	return added, nil
}

// exceeds refuses what would exceed a limit of q.
func exceeds(q *corev1.ResourceQuota, added corev1.ResourceList) error {
	var over []corev1.ResourceName
	for name, value := range added {
		total := value.DeepCopy()
		total.Add(q.Status.Used[name])
		if total.Cmp(q.Status.Hard[name]) > 0 {
			over = append(over, name)
		}
	}
	if len(over) == 0 {
		return nil
	}
	slices.Sort(over)
	return refuse("exceeded quota: %s, requested: %s, used: %s, limited: %s",
		q.Name, show(added, over), show(q.Status.Used, over), show(q.Status.Hard, over))
}

func show(list corev1.ResourceList, names []corev1.ResourceName) string {
	parts := make([]string, len(names))
	for i, name := range names {
		value := list[name]
		parts[i] = string(name) + "=" + value.String()
	}
	return strings.Join(parts, ",")
}

func join(names []corev1.ResourceName) string {
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = string(name)
	}
	return strings.Join(parts, ",")
}

// plus returns the sum of used and added.
func plus(used, added corev1.ResourceList) corev1.ResourceList {
	sum := maps.Clone(used)
	if sum == nil {
		sum = corev1.ResourceList{}
	}
	for name, value := range added {
		total := value.DeepCopy()
		total.Add(sum[name])
		sum[name] = total
	}
	return sum
}

// minus returns used less taken, but at least zero.
func minus(used, taken corev1.ResourceList) corev1.ResourceList {
	rest := maps.Clone(used)
	for name, value := range taken {
		left, ok := rest[name]
		if !ok {
			continue
		}
		left = left.DeepCopy()
		left.Sub(value)
		if left.Sign() < 0 {
			left = resource.Quantity{Format: left.Format}
		}
		rest[name] = left
	}
	return rest
}
