// Package workload keeps changing Deployments, and finds duplicate pods.
package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	callTimeout = 10 * time.Second
	maxReplicas = 6
)

// Config is the configuration of a workload.
type Config struct {
	// Client reaches the deployment like its users.
	Client kubernetes.Interface
	// Namespace contains the Deployments; it must exist, and nothing else may use it.
	Namespace string
	// Deployments is the number of Deployments; Pause is the average pause between changes.
	Deployments int
	Pause       time.Duration
	// Template is the template of the pods, without labels.
	Template corev1.PodTemplateSpec
	// Seed seeds the random choices.
	Seed uint64
}

// Workload is a set of changing Deployments.
type Workload struct {
	cfg    Config
	random *rand.Rand
	census *census

	mu      sync.Mutex
	changes int
}

// New creates a workload.
func New(cfg Config) *Workload {
	return &Workload{cfg: cfg, random: rand.New(rand.NewPCG(cfg.Seed, 11)), census: newCensus()}
}

// Run creates the Deployments and changes them until ctx ends.
func (w *Workload) Run(ctx context.Context) error {
	var follow sync.WaitGroup
	defer follow.Wait()
	follow.Go(func() { w.census.follow(ctx, w.cfg.Client, w.cfg.Namespace) })
	for ctx.Err() == nil {
		w.change(ctx, w.random.IntN(w.cfg.Deployments))
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(w.random.ExpFloat64() * float64(w.cfg.Pause))):
		}
	}
	return nil
}

// Changes returns the number of changes.
func (w *Workload) Changes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changes
}

func name(i int) string { return fmt.Sprintf("work-%d", i) }

// change makes a random change to one Deployment. Failures are not retried; the next change may
// succeed.
func (w *Workload) change(ctx context.Context, i int) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	deployments := w.cfg.Client.AppsV1().Deployments(w.cfg.Namespace)
	var err error
	switch luck := w.random.IntN(100); {
	case luck < 50:
		err = w.patch(ctx, i, fmt.Sprintf(`{"spec":{"replicas":%d}}`, w.random.IntN(maxReplicas+1)))
	case luck < 75:
		err = w.patch(ctx, i, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"change":"%d"}}}}}`, w.random.Int()))
	case luck < 90:
		err = w.kill(ctx)
	default:
		background := metav1.DeletePropagationBackground
		err = deployments.Delete(ctx, name(i), metav1.DeleteOptions{PropagationPolicy: &background})
	}
	if apierrors.IsNotFound(err) {
		_, err = deployments.Create(ctx, w.deployment(i), metav1.CreateOptions{})
	}
	if err == nil {
		w.mu.Lock()
		w.changes++
		w.mu.Unlock()
	}
}

func (w *Workload) patch(ctx context.Context, i int, patch string) error {
	_, err := w.cfg.Client.AppsV1().Deployments(w.cfg.Namespace).Patch(ctx, name(i), types.StrategicMergePatchType,
		[]byte(patch), metav1.PatchOptions{})
	return err
}

// kill deletes a random pod.
func (w *Workload) kill(ctx context.Context) error {
	pods := w.cfg.Client.CoreV1().Pods(w.cfg.Namespace)
	list, err := pods.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil || len(list.Items) == 0 {
		return err
	}
	err = pods.Delete(ctx, list.Items[w.random.IntN(len(list.Items))].Name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (w *Workload) deployment(i int) *appsv1.Deployment {
	replicas := int32(w.random.IntN(maxReplicas + 1))
	labels := map[string]string{"work": name(i)}
	template := *w.cfg.Template.DeepCopy()
	template.Labels = labels
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name(i)},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
		},
	}
}

// Settled returns an error that describes what is missing until all Deployments reach their desired
// state; nil if nothing is. Nothing may be changing them.
func (w *Workload) Settled(ctx context.Context) error {
	deployments, err := w.cfg.Client.AppsV1().Deployments(w.cfg.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	sets, err := w.cfg.Client.AppsV1().ReplicaSets(w.cfg.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	pods, err := w.cfg.Client.CoreV1().Pods(w.cfg.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return settled(deployments.Items, sets.Items, pods.Items)
}

func settled(deployments []appsv1.Deployment, sets []appsv1.ReplicaSet, pods []corev1.Pod) error {
	var faults []error
	has := map[types.UID]int{}
	for _, pod := range pods {
		owner := metav1.GetControllerOf(&pod)
		switch {
		case owner == nil:
			faults = append(faults, fmt.Errorf("pod %s has no owner", pod.Name))
		case pod.DeletionTimestamp != nil:
			faults = append(faults, fmt.Errorf("pod %s on %s is terminating", pod.Name, pod.Spec.NodeName))
		case !active(&pod):
			// A pod that ended with its node stays to show why, and another replaces it.
		default:
			has[owner.UID]++
		}
	}
	for _, d := range deployments {
		s := d.Status
		if want := *d.Spec.Replicas; s.ObservedGeneration != d.Generation || s.UpdatedReplicas != want || s.Replicas != want ||
			s.AvailableReplicas != want {
			faults = append(faults, fmt.Errorf("deployment %s has %d pods, %d of the newest template, %d available; want %d", d.Name, s.Replicas, s.UpdatedReplicas, s.AvailableReplicas, want))
		}
	}
	known := map[types.UID]bool{}
	for _, set := range sets {
		known[set.UID] = true
		if want := int(*set.Spec.Replicas); has[set.UID] != want {
			faults = append(faults, fmt.Errorf("replica set %s has %d pods, want %d", set.Name, has[set.UID], want))
		}
	}
	for _, pod := range pods {
		if owner := metav1.GetControllerOf(&pod); owner != nil && !known[owner.UID] {
			faults = append(faults, fmt.Errorf("pod %s has an owner that does not exist", pod.Name))
		}
	}
	return errors.Join(faults...)
}

// active reports whether a pod counts for its owner.
func active(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// Check returns an error that names replica sets that at some moment had more pods than ever
// requested.
func (w *Workload) Check() error { return w.census.check() }
