// Package podcontrol creates the pods of controllers from templates, and deletes them, with the Events
// that Kubernetes records of it (kubernetes, pkg/controller, RealPodControl).
package podcontrol

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/contention"
	"github.com/garboard/garboard/services/controllers/internal/controllerref"
)

// Control creates and deletes pods for owners of one kind. It is safe for concurrent use.
type Control struct {
	// Pods writes them.
	Pods client.Resource[*corev1.Pod]
	// Kind is the kind of the owners.
	Kind schema.GroupVersionKind
	// Events records what becomes of them, with their owners.
	Events *events.Recorder

	ending ending
}

// Create creates a pod from a template, controlled by owner, and records an Event. Its name begins with
// prefix, or with the owner's name if that is empty. An error is the API's, unwrapped, because it
// becomes the message of a condition. Once it was that the owner's namespace is being deleted, the API is
// not asked again for that owner for a minute: most likely this is its end.
func (c *Control) Create(ctx context.Context, owner scheme.Object, template *corev1.PodTemplateSpec, prefix string) error {
	pod, err := c.pod(owner, template, prefix)
	if err != nil {
		c.Events.Event(owner, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
		return err
	}
	if err := c.ending.of(owner); err != nil {
		return err
	}
	created, err := c.Pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		switch {
		case isEnding(err):
			c.ending.note(owner, err)
		case !contention.IsSlowed(err): // Otherwise nothing was tried.
			c.Events.Event(owner, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
		}
		return err
	}
	c.Events.Event(owner, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %s", created.Name)
	return nil
}

// Delete deletes a pod of an owner and records an Event. A pod that has since taken the name is spared.
// An error is the API's, unwrapped; if it is that the pod is gone, there is no Event.
func (c *Control) Delete(ctx context.Context, owner scheme.Object, pod *corev1.Pod) error {
	err := c.Pods.Delete(ctx, pod.Namespace, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if err != nil {
		if !apierrors.IsNotFound(err) && !contention.IsSlowed(err) {
			c.Events.Event(owner, corev1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
		}
		return err
	}
	c.Events.Event(owner, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %s", pod.Name)
	return nil
}

// pod builds a pod from a template.
func (c *Control) pod(owner scheme.Object, template *corev1.PodTemplateSpec, prefix string) (*corev1.Pod, error) {
	if len(template.Labels) == 0 {
		return nil, errors.New("unable to create pods, no labels")
	}
	if prefix == "" {
		prefix = Prefix(owner.GetName())
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.GetNamespace(), GenerateName: prefix,
			Labels: maps.Clone(template.Labels), Annotations: maps.Clone(template.Annotations),
			Finalizers:      slices.Clone(template.Finalizers),
			OwnerReferences: []metav1.OwnerReference{controllerref.Reference(owner, c.Kind)},
		},
		Spec: *template.Spec.DeepCopy(),
	}, nil
}

// Prefix returns the beginning of the generated names of an owner's pods.
func Prefix(owner string) string {
	if len(validation.IsDNS1123Subdomain(owner)) > 0 {
		return owner
	}
	return owner + "-"
}

// isEnding reports whether an error says that the namespace is being deleted. Every creation will fail
// until it is gone, and the owner with it.
func isEnding(err error) bool { return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) }

// SlowStart calls f up to count times, with 0, 1, 2 and so on, in concurrent batches, each twice as large
// as the one before. If nothing can be created (a quota, a bad template), few calls find it out. It
// returns how many calls succeeded, and the first error of the batch that had one; no further batch
// starts after it. That the namespace is being deleted ends it too, and is no error.
func SlowStart(count int, f func(i int) error) (succeeded int, err error) {
	var good atomic.Int64
	for done, size := 0, min(count, 1); size > 0; size = min(2*size, count-done) {
		faults := make(chan error, size)
		var batch sync.WaitGroup
		for i := range size {
			batch.Go(func() {
				if err := f(done + i); err != nil {
					faults <- err
					return
				}
				good.Add(1)
			})
		}
		batch.Wait()
		if len(faults) > 0 {
			if err := <-faults; !isEnding(err) {
				return int(good.Load()), err
			}
			return int(good.Load()), nil
		}
		done += size
	}
	return int(good.Load()), nil
}
