package daemonset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/controllers/internal/controllerref"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// generationLabel has the generation of the template that a pod was made from, where the DaemonSet has one
// (extensions/v1beta1, DaemonSetTemplateGenerationKey).
const generationLabel = "pod-template-generation"

// write creates and deletes pods, up to burst of each.
func (r *reconciler) write(ctx context.Context, s *state, t todo) error {
	create, remove := t.create[:min(len(t.create), burst)], t.remove[:min(len(t.remove), burst)]
	fault := slowStart(len(create), func(i int) error {
		err := r.createPod(ctx, s, create[i])
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			// Every creation will fail until the namespace is gone, and this DaemonSet with it.
			return nil
		}
		return err
	})
	faults := make([]error, len(remove))
	var deletions sync.WaitGroup
	for i, pod := range remove {
		deletions.Go(func() { faults[i] = r.deletePod(ctx, s.ds, pod) })
	}
	deletions.Wait()
	return errors.Join(fault, errors.Join(faults...))
}

func (r *reconciler) createPod(ctx context.Context, s *state, node string) error {
	pod := newPod(s, controllerref.Reference(s.ds, r.sets.Client.Kind().GroupVersionKind), node)
	created, err := r.pods.Client.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			r.events.Event(s.ds, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
		}
		return fmt.Errorf("creating a pod of DaemonSet %s/%s on %s: %w", s.ds.Namespace, s.ds.Name, node, err)
	}
	r.events.Event(s.ds, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %s", created.Name)
	return nil
}

// newPod builds the pod of a node.
func newPod(s *state, owner metav1.OwnerReference, node string) *corev1.Pod {
	template := &s.ds.Spec.Template
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.ds.Namespace, GenerateName: s.ds.Name + "-",
			Labels: maps.Clone(template.Labels), Annotations: maps.Clone(template.Annotations),
			Finalizers: slices.Clone(template.Finalizers), OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: *template.Spec.DeepCopy(),
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	if generation, ok := s.ds.Annotations[appsv1.DeprecatedTemplateGeneration]; ok {
		pod.Labels[generationLabel] = generation
	}
	pod.Labels[hashLabel] = s.hash
	pod.Spec.Tolerations = tolerationsOf(&pod.Spec)
	aimAt(&pod.Spec, node)
	return pod
}

func (r *reconciler) deletePod(ctx context.Context, ds *appsv1.DaemonSet, pod *corev1.Pod) error {
	// The UID spares another pod that has taken the name.
	err := r.pods.Client.Delete(ctx, pod.Namespace, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	switch {
	case err == nil:
		r.events.Event(ds, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %s", pod.Name)
		return nil
	case apierrors.IsNotFound(err):
		return nil
	}
	r.events.Event(ds, corev1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
	return fmt.Errorf("unable to delete pods: %w", err)
}

// slowStart calls f for 0 to n-1 in concurrent batches, each twice as large as the one before, up to the
// first with an error: if nothing can be created, few calls find it out.
func slowStart(n int, f func(i int) error) error {
	for done, size := 0, min(n, 1); size > 0; size = min(2*size, n-done) {
		faults := make([]error, size)
		var batch sync.WaitGroup
		for i := range size {
			batch.Go(func() { faults[i] = f(done + i) })
		}
		batch.Wait()
		if err := errors.Join(faults...); err != nil {
			return err
		}
		done += size
	}
	return nil
}

// updateStatus writes the status if it differs from the current one.
func (r *reconciler) updateStatus(ctx context.Context, s *state) error {
	status := *s.ds.Status.DeepCopy()
	status.ObservedGeneration = s.ds.Generation
	status.DesiredNumberScheduled, status.CurrentNumberScheduled, status.NumberMisscheduled = 0, 0, 0
	status.NumberReady, status.UpdatedNumberScheduled, status.NumberAvailable = 0, 0, 0
	for _, node := range s.nodes {
		run, _ := s.want.decide(node)
		pods := s.onNode[node.Name]
		if !run {
			if len(pods) > 0 {
				status.NumberMisscheduled++
			}
			continue
		}
		status.DesiredNumberScheduled++
		if len(pods) == 0 {
			continue
		}
		status.CurrentNumberScheduled++
		if podstate.Ready(pods[0]) {
			status.NumberReady++
			if s.available(pods[0]) {
				status.NumberAvailable++
			}
		}
		if s.updated(pods[0]) {
			status.UpdatedNumberScheduled++
		}
	}
	status.NumberUnavailable = status.DesiredNumberScheduled - status.NumberAvailable
	if equality.Semantic.DeepEqual(status, s.ds.Status) {
		return nil
	}
	ds := s.ds.DeepCopy()
	ds.Status = status
	if _, err := r.sets.Client.UpdateStatus(ctx, ds, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("error storing status for daemon set %s/%s: %w", ds.Namespace, ds.Name, err)
	}
	return nil
}
