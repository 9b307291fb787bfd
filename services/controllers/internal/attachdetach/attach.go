package attachdetach

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/informer"
)

// Reasons of Events.
const succeeded, failed = "SuccessfulAttachVolume", "FailedAttachVolume"

// message is the text of an Event about a volume that is to be attached.
func message(what string, of *source, more string) string {
	return fmt.Sprintf("%s for volume %q %s", what, of.title(), more)
}

// podList returns pods by their keys.
func (w *wish) podList() []*corev1.Pod {
	return slices.SortedFunc(maps.Values(w.pods), func(a, b *corev1.Pod) int { return strings.Compare(informer.Key(a), informer.Key(b)) })
}

func (r *reconciler) tell(pods []*corev1.Pod, eventType, reason, text string) {
	for _, pod := range pods {
		r.events.Event(pod, eventType, reason, "%s", text)
	}
}

// attach asks for a volume on a node whose pods need it.
func (r *reconciler) attach(ctx context.Context, v *volume, node string, next *soonest) {
	w := v.wanted[node]
	if v.busy(node, w.source.exclusive()) || w.source.exclusive() && v.leaves(node) {
		return
	}
	a := v.nodes[node]
	if a != nil && a.state == attached {
		r.mu.Lock()
		a.unneeded, a.leaving, a.source = time.Time{}, false, w.source
		r.state.reportOn(v, a)
		r.mu.Unlock()
		return
	}
	if w.source.exclusive() {
		if others := elsewhere(v, node); len(others) > 0 {
			r.refuse(v, w, others)
			return
		}
	}
	if a == nil {
		r.mu.Lock()
		a = r.state.attachment(v, node, pending)
		r.mu.Unlock()
	}
	va := r.get(a)
	if wait := a.operation.wait(attaching); wait > 0 {
		if done, _ := attachStatus(va); !done {
			next.in(wait)
			return
		}
	}
	a.source, a.unneeded, a.leaving = w.source, time.Time{}, false
	a.operation.begin(attaching, w.podList())
	if va == nil {
		if err := r.create(ctx, a); err != nil && !apierrors.IsAlreadyExists(err) {
			r.attachFailed(v, a, fmt.Sprintf("%s: attacher.Attach failed: %v", plugin, err))
			next.in(a.operation.wait(attaching))
			return
		}
	}
	r.progress(v, a, next)
	if wait := a.operation.wait(attaching); !a.operation.running && wait > 0 {
		next.in(wait)
	}
}

// create writes the VolumeAttachment.
func (r *reconciler) create(ctx context.Context, a *attachment) error {
	from := storagev1.VolumeAttachmentSource{PersistentVolumeName: &a.source.volume.Name}
	if a.source.inline {
		from = storagev1.VolumeAttachmentSource{InlineVolumeSpec: &a.source.volume.Spec}
	}
	_, err := r.attachments.Client.Create(ctx, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: a.id},
		Spec:       storagev1.VolumeAttachmentSpec{NodeName: a.node, Attacher: a.source.driver, Source: from},
	}, metav1.CreateOptions{})
	return err
}

// attachStatus says whether a VolumeAttachment reports a volume as attached, or why it is not.
func attachStatus(va *storagev1.VolumeAttachment) (done bool, fault string) {
	switch {
	case va == nil: // It is deleted, and may be made anew until the time is over.
		return false, ""
	case va.DeletionTimestamp != nil:
		return false, "volume attachment is being deleted"
	case va.Status.Attached:
		return true, ""
	case va.Status.AttachError != nil:
		return false, reason(va.Status.AttachError)
	}
	return false, ""
}

// reason returns the text of an error, which may be empty.
func reason(e *storagev1.VolumeError) string {
	if e.Message == "" {
		return "the attacher gave no reason"
	}
	return e.Message
}

func (r *reconciler) hasAttached(v *volume, a *attachment) {
	r.metrics.operated(v.driver, a)
	r.mu.Lock()
	a.state = attached
	pods := a.operation.pods
	a.operation = operation{}
	r.state.reportOn(v, a)
	r.mu.Unlock()
	r.logger.Info("volume attached", "volume", v.name, "node", a.node)
	r.tell(pods, corev1.EventTypeNormal, succeeded, message("AttachVolume.Attach succeeded", a.source, ""))
}

func (r *reconciler) attachFailed(v *volume, a *attachment, fault string) {
	r.metrics.failed(v.driver, a)
	r.mu.Lock()
	a.state = uncertain
	pods := a.operation.pods
	a.operation.fail()
	r.mu.Unlock()
	r.logger.Error("attaching a volume failed", "volume", v.name, "node", a.node, "err", fault, "retryAfter", a.operation.delay)
	r.tell(pods, corev1.EventTypeWarning, failed, message("AttachVolume.Attach failed", a.source, ": "+fault))
}

// elsewhere returns the other nodes to which a volume is attached.
func elsewhere(v *volume, node string) []string {
	var nodes []string
	for _, a := range v.sorted() {
		if a.node != node && a.state == attached {
			nodes = append(nodes, a.node)
		}
	}
	return nodes
}

// refuse tells, once, the pods on a node that other nodes have their volume.
func (r *reconciler) refuse(v *volume, w *wish, others []string) {
	if w.refused {
		return
	}
	r.mu.Lock()
	w.refused = true
	r.mu.Unlock()
	var holders []*corev1.Pod
	for _, node := range others {
		if other := v.wanted[node]; other != nil {
			holders = append(holders, other.podList()...)
		}
	}
	r.logger.Info("a volume waits until other nodes have detached it", "volume", v.name, "nodes", others)
	const what = "Waiting for detach"
	for _, pod := range w.podList() {
		text := "Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node"
		if len(holders) > 0 {
			text = usedBy(pod.Namespace, holders)
		}
		r.tell([]*corev1.Pod{pod}, corev1.EventTypeWarning, failed, message(what, w.source, text))
	}
}

// usedBy names the pods that have a volume, except those of other namespaces, of which it says how many
// there are.
func usedBy(namespace string, holders []*corev1.Pod) string {
	var names []string
	others := 0
	for _, pod := range holders {
		if pod.Namespace == namespace {
			names = append(names, pod.Name)
		} else {
			others++
		}
	}
	switch {
	case len(names) == 0:
		return fmt.Sprintf("Volume is already used by %d pod(s) in different namespaces", others)
	case others > 0:
		return fmt.Sprintf("Volume is already used by pod(s) %s and %d pod(s) in different namespaces", strings.Join(names, ", "), others)
	}
	return "Volume is already used by pod(s) " + strings.Join(names, ", ")
}
