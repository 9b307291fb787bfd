package daemonset

import (
	"context"
	"errors"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/controllers/internal/podcontrol"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// generationLabel has the generation of the template that a pod was made from, where the DaemonSet has one
// (extensions/v1beta1, DaemonSetTemplateGenerationKey).
const generationLabel = "pod-template-generation"

// write creates and deletes pods, up to burst of each.
func (r *reconciler) write(ctx context.Context, s *state, p plan) error {
	create, remove := p.create[:min(len(p.create), burst)], p.remove[:min(len(p.remove), burst)]
	_, fault := podcontrol.SlowStart(len(create), func(i int) error {
		if err := r.control.Create(ctx, s.ds, templateFor(s, create[i]), ""); err != nil {
			return fmt.Errorf("creating a pod of DaemonSet %s/%s on %s: %w", s.ds.Namespace, s.ds.Name, create[i], err)
		}
		return nil
	})
	faults := make([]error, len(remove))
	var deletions sync.WaitGroup
	for i, pod := range remove {
		deletions.Go(func() {
			if err := r.control.Delete(ctx, s.ds, pod); err != nil && !apierrors.IsNotFound(err) {
				faults[i] = fmt.Errorf("unable to delete pods: %w", err)
			}
		})
	}
	deletions.Wait()
	return errors.Join(fault, errors.Join(faults...))
}

// templateFor returns the template of the pod of a node.
func templateFor(s *state, node string) *corev1.PodTemplateSpec {
	template := s.ds.Spec.Template.DeepCopy()
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	if generation, ok := s.ds.Annotations[appsv1.DeprecatedTemplateGeneration]; ok {
		template.Labels[generationLabel] = generation
	}
	template.Labels[hashLabel] = s.hash
	template.Spec.Tolerations = tolerationsOf(&template.Spec)
	aimAt(&template.Spec, node)
	return template
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
