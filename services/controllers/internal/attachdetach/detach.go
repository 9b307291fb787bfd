package attachdetach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// detach takes a volume from a node whose pods do not need it, once the node has unmounted it.
func (r *reconciler) detach(ctx context.Context, v *volume, a *attachment, next *soonest) {
	if v.busy(a.node, a.source.exclusive()) {
		return
	}
	if wait := a.operation.wait(detaching); wait > 0 {
		if a.operation.deleted && r.get(a) == nil {
			r.hasDetached(v, a)
			return
		}
		next.in(wait)
		return
	}
	forced, mayGo := r.unmounted(v, a, next)
	if !mayGo {
		a.leaving = false
		return
	}
	r.mu.Lock()
	written := r.state.unreport(v, a)
	r.mu.Unlock()
	a.leaving = !written
	if a.leaving {
		return // The key of the node asks for this one again.
	}
	a.operation.begin(detaching, nil)
	if forced != "" {
		r.metrics.forced.WithLabelValues(forced).Inc()
		r.logger.Warn("detaching a volume by force", "volume", v.name, "node", a.node, "reason", forced)
	} else if err := r.verifySafe(ctx, v, a); err != nil {
		r.detachFailed(v, a, err.Error())
		next.in(a.operation.wait(detaching))
		return
	}
	err := r.attachments.Client.Delete(ctx, "", a.id, metav1.DeleteOptions{})
	switch {
	case apierrors.IsNotFound(err):
		r.hasDetached(v, a)
		return
	case err != nil:
		r.detachFailed(v, a, fmt.Sprintf("%s: detacher.Detach failed to delete VolumeAttachment [%s]: %v", plugin, a.id, err))
	default:
		a.operation.deleted = true
		r.progress(v, a, next)
	}
	if wait := a.operation.wait(detaching); !a.operation.running && wait > 0 {
		next.in(wait)
	}
}

// Why a volume is detached by force.
const timeout, gone = "timeout", "out-of-service"

// unmounted reports whether a volume may be detached: its node has unmounted it, or nobody waits for the
// node any longer. Forced says why the node is not asked; empty if it is.
func (r *reconciler) unmounted(v *volume, a *attachment, next *soonest) (forced string, mayGo bool) {
	node, found := r.nodes.Indexer().GetByKey(a.node)
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.unneeded.IsZero() {
		a.unneeded = time.Now()
	}
	waited := time.Since(a.unneeded)
	expired := waited > maxUnmountWait && !r.options.DisableForceDetach
	mounted := r.state.node(a.node).inUse[v.name]
	switch tainted := found && outOfService(node); {
	case expired && (!mounted || !found || !ready(node)):
		return timeout, true
	case tainted:
		return gone, true
	case !mounted:
		return "", true
	case waited <= maxUnmountWait && !r.options.DisableForceDetach:
		next.in(maxUnmountWait - waited + time.Millisecond)
	}
	return "", false
}

// verifySafe asks the API whether a node has unmounted a volume.
func (r *reconciler) verifySafe(ctx context.Context, v *volume, a *attachment) error {
	node, err := r.nodes.Client.Get(ctx, "", a.node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading node %s: %w", a.node, err)
	case slices.Contains(node.Status.VolumesInUse, v.name):
		return errors.New("volume is still in use by node, according to Node status")
	}
	return nil
}

// detachStatus says whether a VolumeAttachment is gone, or why it is not.
func detachStatus(va *storagev1.VolumeAttachment) (done bool, fault string) {
	switch {
	case va == nil:
		return true, ""
	case va.Status.DetachError != nil:
		return false, reason(va.Status.DetachError)
	}
	return false, ""
}

func (r *reconciler) hasDetached(v *volume, a *attachment) {
	r.metrics.operated(v.driver, a)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.drop(v, a)
	if _, found := r.nodes.Indexer().GetByKey(a.node); !found {
		r.state.tidy(a.node)
	}
	r.logger.Info("volume detached", "volume", v.name, "node", a.node)
}

// detachFailed leaves it open whether the volume is attached. No pod waits for this, so that there is no
// Event.
func (r *reconciler) detachFailed(v *volume, a *attachment, fault string) {
	r.metrics.failed(v.driver, a)
	r.mu.Lock()
	a.state = uncertain
	a.operation.fail()
	r.mu.Unlock()
	r.logger.Error("detaching a volume failed", "volume", v.name, "node", a.node, "err", fault, "retryAfter", a.operation.delay)
}
