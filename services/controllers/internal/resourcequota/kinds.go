package resourcequota

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/customkinds"
	"github.com/garboard/garboard/libs/quota"
	"github.com/garboard/garboard/libs/scheme"
)

// followKinds ends the caches of kinds that are no longer served, and recounts the quotas that limit kinds that
// are new, until ctx ends.
func (r *reconciler) followKinds(ctx context.Context) error {
	defer r.endCaches(nil)
	before := map[*scheme.Kind]bool{}
	for first := true; ; first = false {
		all, changed := r.table.Follow()
		served := map[*scheme.Kind]bool{}
		var fresh []*scheme.Kind
		for _, kind := range customkinds.Readable(all) {
			served[kind] = true
			if !first && !before[kind] && quota.Counted(kind) {
				fresh = append(fresh, kind)
			}
		}
		before = served
		r.endCaches(served)
		for _, q := range r.quotas.In("") {
			r.recountFor(q, fresh)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// recountFor enqueues a quota that limits one of kinds.
func (r *reconciler) recountFor(q *corev1.ResourceQuota, kinds []*scheme.Kind) {
	for _, kind := range kinds {
		if len(quota.Covered(kind, q.Spec.Hard)) > 0 {
			r.queue.Add(q)
			return
		}
	}
}

// endCaches ends the caches of counted kinds that are not served.
func (r *reconciler) endCaches(served map[*scheme.Kind]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for kind, end := range r.ends {
		if !served[kind] {
			end()
			delete(r.ends, kind)
			delete(r.caches, kind)
		}
	}
}
