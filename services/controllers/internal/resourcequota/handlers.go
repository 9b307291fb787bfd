package resourcequota

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/quota"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/control"
)

// quotaHandler enqueues quotas that are new or have changed limits. Charges by the apiserver need
// no recount.
func (r *run) quotaHandler() informer.ResourceEventHandler[*corev1.ResourceQuota] {
	return informer.ResourceEventHandlerFuncs[*corev1.ResourceQuota]{
		AddFunc: func(q *corev1.ResourceQuota, _ bool) { r.enqueue(q) },
		UpdateFunc: func(old, q *corev1.ResourceQuota) {
			if !equality.Semantic.DeepEqual(old.Spec, q.Spec) || !equality.Semantic.DeepEqual(q.Spec.Hard, q.Status.Hard) {
				r.enqueue(q)
			}
		},
		DeleteFunc: func(gone informer.DeletedObject[*corev1.ResourceQuota]) { r.forget(gone.Key) },
	}
}

// enqueue gives priority to a quota whose status is incomplete, since it does not limit anything
// yet, over quotas that may only be inaccurate.
func (r *run) enqueue(q *corev1.ResourceQuota) {
	complete := equality.Semantic.DeepEqual(q.Spec.Hard, q.Status.Hard)
	for name := range q.Status.Hard {
		if _, there := q.Status.Used[name]; !there {
			complete = false
		}
	}
	if complete {
		r.queue.EnqueueLow(informer.Key(q))
		return
	}
	r.queue.Enqueue(informer.Key(q))
}

// watch recounts a quota when an update or deletion of a T lowers the usage that the quota limits.
func watch[T informer.Object](r *run, handlers *control.Handlers, i informer.SharedInformer[T]) error {
	kind := client.Of[T](r.cfg.Client).Kind()
	r.mu.Lock()
	r.caches[kind] = informed[T]{i}
	r.mu.Unlock()
	return control.Handle(handlers, i, informer.ResourceEventHandlerFuncs[T]{
		UpdateFunc: func(old, obj T) {
			if old.GetResourceVersion() == obj.GetResourceVersion() {
				return
			}
			r.each(kind, obj.GetNamespace(), func(q *corev1.ResourceQuota) {
				if fell(usageIn(q, kind, old), usageIn(q, kind, obj)) {
					r.queue.Enqueue(informer.Key(q))
				}
			})
		},
		DeleteFunc: func(gone informer.DeletedObject[T]) {
			if scheme.Object(gone.OptionalObj) != scheme.Object(*new(T)) {
				r.gone(kind, gone.OptionalObj)
				return
			}
			namespace, _ := gone.GetObjectName()
			r.each(kind, namespace, func(q *corev1.ResourceQuota) { r.queue.Enqueue(informer.Key(q)) })
		},
	})
}

// gone recounts the quotas that limited a deleted object.
func (r *run) gone(kind *scheme.Kind, obj scheme.Object) {
	r.each(kind, obj.GetNamespace(), func(q *corev1.ResourceQuota) {
		r.ledger(q).deleted(obj.GetUID(), func() object { return chargedObject(q, kind, obj) })
		r.queue.Enqueue(informer.Key(q))
	})
}

// each calls f for every quota of a namespace that limits something that objects of this kind use.
func (r *run) each(kind *scheme.Kind, namespace string, f func(*corev1.ResourceQuota)) {
	quotas, err := r.quotas.Indexer().ByIndex(informer.NamespaceIndex, namespace)
	if err != nil {
		r.cfg.Logger.Error("finding the quotas of a namespace", "namespace", namespace, "err", err)
		return
	}
	for _, q := range quotas {
		if len(quota.Covered(kind, q.Spec.Hard)) > 0 {
			f(q)
		}
	}
}
