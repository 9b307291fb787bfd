package attachdetach

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/garboard/garboard/libs/informer/reconcile"
)

// soonest is the shortest of several waits.
type soonest struct{ after time.Duration }

func (s *soonest) in(wait time.Duration) {
	wait = max(wait, time.Millisecond)
	if s.after == 0 || wait < s.after {
		s.after = wait
	}
}

// reconcileVolume brings a volume to the nodes whose pods need it, and from those whose pods do not.
func (r *reconciler) reconcileVolume(ctx context.Context, name corev1.UniqueVolumeName) (reconcile.Result, error) {
	r.mu.Lock()
	v := r.state.volume(name)
	r.mu.Unlock()
	wanted, err := r.wanted(v)
	if err != nil {
		return reconcile.Result{}, err
	}
	r.mu.Lock()
	r.state.want(v, wanted)
	r.mu.Unlock()

	var next soonest
	for _, a := range v.sorted() {
		r.progress(v, a, &next)
		r.compare(v, a)
	}
	// Detaches come first: another node may wait for one.
	for _, a := range v.sorted() {
		if v.wanted[a.node] == nil {
			r.detach(ctx, v, a, &next)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(v.wanted)) {
		r.attach(ctx, v, node, &next)
	}
	r.mu.Lock()
	if len(v.wanted) == 0 && len(v.nodes) == 0 {
		delete(r.state.volumes, name)
	}
	r.mu.Unlock()
	return reconcile.Result{RequeueAfter: next.after}, nil
}

// get returns the VolumeAttachment of an attachment; nil if there is none.
func (r *reconciler) get(a *attachment) *storagev1.VolumeAttachment {
	found, _ := r.attachments.Indexer().GetByKey(a.id)
	return found
}

// compare drops an attachment that the VolumeAttachment does not confirm, so that it is made anew.
func (r *reconciler) compare(v *volume, a *attachment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !a.verify || a.operation.running || a.state != attached {
		return
	}
	a.verify = false
	if va := r.get(a); va != nil && va.Status.Attached {
		return
	}
	if driver, _ := r.drivers.Indexer().GetByKey(v.driver); !attaches(driver) {
		return
	}
	r.logger.Warn("a volume is no longer attached", "volume", v.name, "node", a.node)
	r.state.drop(v, a)
}

// progress looks how far an operation has come.
func (r *reconciler) progress(v *volume, a *attachment, next *soonest) {
	if !a.operation.running {
		return
	}
	va := r.get(a)
	var done bool
	var fault string
	kind := a.operation.kind
	if kind == attaching {
		done, fault = attachStatus(va)
	} else {
		done, fault = detachStatus(va)
	}
	left := operationTimeout - time.Since(a.operation.began)
	if fault == "" && !done && left > 0 {
		next.in(left)
		return
	}
	if fault == "" && !done {
		fault = timedOut(v, a)
	}
	switch {
	case fault != "" && kind == attaching:
		r.attachFailed(v, a, fault)
	case fault != "":
		r.detachFailed(v, a, fault)
	case kind == attaching:
		r.hasAttached(v, a)
	default:
		r.hasDetached(v, a)
	}
}

// timedOut is Kubernetes' text, which does not name the driver of a volume that is detached.
func timedOut(v *volume, a *attachment) string {
	driver, verb := v.driver, "attach"
	if a.operation.kind == detaching {
		driver, verb = "unknown", "detach"
	}
	return fmt.Sprintf("timed out waiting for external-attacher of %s CSI driver to %s volume %s", driver, verb, v.handle)
}
