package resourcequota

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/garboard/garboard/libs/quota"
	"github.com/garboard/garboard/libs/scheme"
)

// mask returns the entries of list that hard names.
func mask(list, hard corev1.ResourceList) corev1.ResourceList {
	masked := corev1.ResourceList{}
	for name, value := range list {
		if _, there := hard[name]; there {
			masked[name] = value
		}
	}
	return masked
}

func add(to, more corev1.ResourceList) {
	for name, value := range more {
		sum := to[name]
		sum.Add(value)
		to[name] = sum
	}
}

// usageIn returns what an object uses of the resources that a quota limits; nil if it is outside
// the quota's scopes.
func usageIn(q *corev1.ResourceQuota, kind *scheme.Kind, obj scheme.Object) corev1.ResourceList {
	if !quota.InScopes(q, obj) {
		return nil
	}
	return mask(quota.Usage(kind, obj), q.Spec.Hard)
}

// chargedFor returns what an object was charged when it was created.
func chargedFor(q *corev1.ResourceQuota, kind *scheme.Kind, obj scheme.Object) corev1.ResourceList {
	if pod, ok := obj.(*corev1.Pod); ok {
		fresh := *pod
		fresh.Status, fresh.DeletionTimestamp, fresh.DeletionGracePeriodSeconds = corev1.PodStatus{}, nil, nil
		obj = &fresh
	}
	return usageIn(q, kind, obj)
}

// chargedObject returns an object with what it was charged at its creation; charged is nil if the
// object is outside the quota's scopes.
func chargedObject(q *corev1.ResourceQuota, kind *scheme.Kind, obj scheme.Object) object {
	// An object without a revision counts as an old one.
	revision, _ := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	return object{uid: obj.GetUID(), charged: chargedFor(q, kind, obj), revision: revision}
}

// newUsed returns the usage to write into a quota: for each counted resource the count plus what
// may still come, but not more than the current usage unless the count itself is more. Resources
// that are not counted keep their current usage.
func newUsed(q *corev1.ResourceQuota, counted, pending corev1.ResourceList) corev1.ResourceList {
	used := mask(q.Status.Used, q.Spec.Hard)
	for name, count := range counted {
		said, there := used[name]
		if !there {
			used[name] = count
			continue
		}
		needed := count.DeepCopy()
		needed.Add(pending[name])
		if needed.Cmp(said) >= 0 {
			needed = said
		}
		if needed.Cmp(count) < 0 {
			needed = count
		}
		used[name] = needed
	}
	return used
}

// sameStatus reports whether a quota's status already has these values.
func sameStatus(status corev1.ResourceQuotaStatus, hard, used corev1.ResourceList) bool {
	return equality.Semantic.DeepEqual(status.Hard, hard) && equality.Semantic.DeepEqual(status.Used, used)
}

// fell reports whether one of the amounts is less than before.
func fell(before, after corev1.ResourceList) bool {
	for name, value := range before {
		if value.Cmp(after[name]) > 0 {
			return true
		}
	}
	return false
}

func zero() resource.Quantity { return *resource.NewQuantity(0, resource.DecimalSI) }
