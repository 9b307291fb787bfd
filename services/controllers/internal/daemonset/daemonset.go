// Package daemonset runs a pod of each DaemonSet on every node that fits, as Kubernetes' DaemonSet
// controller does (kubernetes, pkg/controller/daemon).
package daemonset

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/podcontrol"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

const (
	name    = "daemonset-controller"
	workers = 2
	// burst bounds the pods that one reconcile creates, and those that it deletes (Kubernetes,
	// BurstReplicas).
	burst = 250
	// hashLabel has the revision that a pod was made from.
	hashLabel = appsv1.DefaultDaemonSetUniqueLabelKey
)

// reconciler reconciles DaemonSets.
type reconciler struct {
	sets      *controller.Objects[*appsv1.DaemonSet]
	pods      *controller.Owned[*corev1.Pod, *appsv1.DaemonSet]
	revisions *controller.Owned[*appsv1.ControllerRevision, *appsv1.DaemonSet]
	nodes     informer.SharedInformer[*corev1.Node]
	events    *events.Recorder
	control   *podcontrol.Control
	failures  failures
}

// New declares the DaemonSet controller.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{sets: controller.For[*appsv1.DaemonSet](d), nodes: informer.For[*corev1.Node](d.Informers), events: d.Events(name)}
	selects := func(ds *appsv1.DaemonSet) (labels.Selector, error) {
		return metav1.LabelSelectorAsSelector(ds.Spec.Selector)
	}
	r.pods = controller.OwnedBy[*corev1.Pod](d, r.sets)
	r.pods.Selects = selects
	r.control = &podcontrol.Control{Pods: r.pods.Client, Kind: r.sets.Client.Kind().GroupVersionKind, Events: r.events}
	r.revisions = controller.OwnedBy[*appsv1.ControllerRevision](d, r.sets)
	r.revisions.Selects = selects
	r.revisions.Quiet = true // Who makes a second one of the same template has time to delete the first.
	return &controller.Spec{
		Name: name, Resource: "daemonsets", Workers: workers, Events: r.events, For: r.sets,
		Watches:   []controller.Watch{r.pods, r.revisions, controller.On(r.nodes, r.nodeChanged)},
		Reconcile: r.reconcile, Begin: r.failures.clear,
	}
}

// nodeChanged asks for reconciles of the DaemonSets for which a node has become another.
func (r *reconciler) nodeChanged(q controller.Queue, old, now *corev1.Node) {
	if old != nil && now != nil && equality.Semantic.DeepEqual(old.Labels, now.Labels) &&
		equality.Semantic.DeepEqual(old.Spec.Taints, now.Spec.Taints) {
		return
	}
	for _, ds := range r.sets.Indexer().List() {
		want := requirementsOf(ds)
		var ranBefore, stayedBefore, run, stay bool
		if old != nil {
			ranBefore, stayedBefore = want.decide(old)
		}
		if now != nil {
			run, stay = want.decide(now)
		}
		if run != ranBefore || stay != stayedBefore || ds.Status.NumberMisscheduled > 0 {
			q.Add(ds)
		}
	}
}

// state is what one reconcile of a DaemonSet knows.
type state struct {
	ds    *appsv1.DaemonSet
	nodes []*corev1.Node // sorted by name
	// onNode are the pods by the name of their node, without those that have ended and are being deleted.
	onNode map[string][]*corev1.Pod
	// hash is the revision of the template.
	hash string
	now  time.Time
	want requirements
	// wait is after how long to look again; 0 for no need.
	wait time.Duration
}

// again asks for another look after a time.
func (s *state) again(after time.Duration) {
	if after > 0 && (s.wait == 0 || after < s.wait) {
		s.wait = after
	}
}

func (s *state) minReady() time.Duration {
	return time.Duration(s.ds.Spec.MinReadySeconds) * time.Second
}

// available reports whether a pod has been ready for long enough.
func (s *state) available(pod *corev1.Pod) bool {
	available, wait := podstate.Available(pod, s.minReady(), s.now)
	s.again(wait)
	return available
}

// updated reports whether a pod was made from the present template.
func (s *state) updated(pod *corev1.Pod) bool {
	generation, known := s.ds.Annotations[appsv1.DeprecatedTemplateGeneration]
	return s.hash != "" && pod.Labels[hashLabel] == s.hash || known && pod.Labels[generationLabel] == generation
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	ds, found := r.sets.Get(key)
	if !found {
		return reconcile.Result{}, nil
	}
	if equality.Semantic.DeepEqual(ds.Spec.Selector, &metav1.LabelSelector{}) {
		r.events.Event(ds, corev1.EventTypeWarning, "SelectingAll", "This daemon set is selecting all pods. A non-empty selector is required.")
		return reconcile.Result{}, nil
	}
	if _, err := metav1.LabelSelectorAsSelector(ds.Spec.Selector); err != nil {
		return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf("reading the selector of DaemonSet %s: %w", key, err))
	}
	if ds.DeletionTimestamp != nil {
		return reconcile.Result{}, nil // Its revisions and pods belong to the garbage collector.
	}
	candidates, err := r.pods.Of(ds)
	if err != nil {
		return reconcile.Result{}, err
	}
	pods, err := r.pods.Claim(ctx, ds, candidates)
	if err != nil {
		return reconcile.Result{}, err
	}
	current, old, err := r.revise(ctx, ds, pods)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("failed to construct revisions of DaemonSet: %w", err)
	}
	if current == nil {
		return reconcile.Result{RequeueAfter: time.Millisecond}, nil
	}
	s := r.newState(ds, pods, current.Labels[hashLabel])
	acted, err := r.act(ctx, s)
	if err == nil {
		err = r.truncate(ctx, ds, pods, old)
	}
	// The pods just created or deleted bring another reconcile, whose status counts them.
	if err != nil || !acted {
		if lost := r.updateStatus(ctx, s); err == nil {
			err = lost
		}
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: s.wait}, nil
}

func (r *reconciler) newState(ds *appsv1.DaemonSet, pods []*corev1.Pod, hash string) *state {
	s := &state{
		ds: ds, nodes: r.nodes.Indexer().List(), onNode: map[string][]*corev1.Pod{}, hash: hash,
		now: time.Now(), want: requirementsOf(ds),
	}
	slices.SortFunc(s.nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, pod := range pods {
		if podstate.Ended(pod) && pod.DeletionTimestamp != nil {
			continue // Whoever has a finalizer on it decides when it goes.
		}
		if node, ok := nodeOf(pod); ok {
			s.onNode[node] = append(s.onNode[node], pod)
		}
	}
	for _, pods := range s.onNode {
		slices.SortFunc(pods, comparePods)
	}
	return s
}

// names returns the nodes that have pods, sorted.
func (s *state) names() []string { return slices.Sorted(maps.Keys(s.onNode)) }

// comparePods sorts the pod to keep to the front: it has been scheduled, and is the oldest.
func comparePods(a, b *corev1.Pod) int {
	switch scheduledA, scheduledB := a.Spec.NodeName != "", b.Spec.NodeName != ""; {
	case scheduledA && !scheduledB:
		return -1
	case scheduledB && !scheduledA:
		return 1
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// act gives every node its pod, and then, if that took no write, goes on with a rollout. It reports
// whether it created or deleted pods.
func (r *reconciler) act(ctx context.Context, s *state) (acted bool, err error) {
	p := r.place(s)
	if p.empty() && s.ds.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		if p, err = s.rollOut(); err != nil {
			return false, err
		}
	}
	return !p.empty(), r.write(ctx, s, p)
}
