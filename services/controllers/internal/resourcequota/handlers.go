package resourcequota

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/quota"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

// quotaChanged asks for a reconcile of a quota that is new or has changed limits. Charges by the apiserver
// need no recount.
func (r *reconciler) quotaChanged(q controller.Queue, old, now *corev1.ResourceQuota) {
	switch {
	case now == nil:
		r.forget(informer.Key(old))
	case old == nil, !equality.Semantic.DeepEqual(old.Spec, now.Spec), !equality.Semantic.DeepEqual(now.Spec.Hard, now.Status.Hard):
		urgency(q, now).Add(now)
	}
}

// urgency gives priority to a quota whose status is incomplete, since it does not limit anything
// yet, over quotas that may only be inaccurate.
func urgency(q controller.Queue, of *corev1.ResourceQuota) controller.Queue {
	complete := equality.Semantic.DeepEqual(of.Spec.Hard, of.Status.Hard)
	for name := range of.Status.Hard {
		if _, there := of.Status.Used[name]; !there {
			complete = false
		}
	}
	if complete {
		return q.Low()
	}
	return q.Normal()
}

// watch recounts a quota when an update or deletion of a T lowers the usage that the quota limits.
func watch[T informer.Object](r *reconciler, i informer.SharedInformer[T]) controller.Watch {
	kind := scheme.For[T](r.table)
	return controller.On(i, func(q controller.Queue, old, now T) {
		var none T
		switch {
		case scheme.Object(now) == scheme.Object(none):
			r.gone(kind, old)
		case scheme.Object(old) == scheme.Object(none) || old.GetResourceVersion() == now.GetResourceVersion():
		default:
			r.each(kind, now.GetNamespace(), func(limit *corev1.ResourceQuota) {
				if fell(usageIn(limit, kind, old), usageIn(limit, kind, now)) {
					q.Add(limit)
				}
			})
		}
	})
}

// gone recounts the quotas that limited a deleted object.
func (r *reconciler) gone(kind *scheme.Kind, obj scheme.Object) {
	r.each(kind, obj.GetNamespace(), func(q *corev1.ResourceQuota) {
		r.ledger(q).deleted(obj.GetUID(), func() object { return chargedObject(q, kind, obj) })
		r.queue.Add(q)
	})
}

// each calls f for every quota of a namespace that limits something that objects of this kind use.
func (r *reconciler) each(kind *scheme.Kind, namespace string, f func(*corev1.ResourceQuota)) {
	for _, q := range r.quotas.In(namespace) {
		if len(quota.Covered(kind, q.Spec.Hard)) > 0 {
			f(q)
		}
	}
}
