// Package statefulset runs the pods of StatefulSets, each with a name, a place in an order and claims of
// its own, as Kubernetes' StatefulSet controller does (kubernetes, pkg/controller/statefulset).
package statefulset

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	name    = "statefulset-controller"
	workers = 5
	// burst bounds the pods that one reconcile creates (Kubernetes, MaxBatchSize).
	burst = 500
)

// reconciler reconciles StatefulSets.
type reconciler struct {
	sets      *controller.Objects[*appsv1.StatefulSet]
	pods      *controller.Owned[*corev1.Pod, *appsv1.StatefulSet]
	revisions *controller.Owned[*appsv1.ControllerRevision, *appsv1.StatefulSet]
	claims    informer.SharedInformer[*corev1.PersistentVolumeClaim]
	// claim writes claims.
	claim  client.Resource[*corev1.PersistentVolumeClaim]
	events *events.Recorder
	gauges *gauges
}

// New declares the StatefulSet controller.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{
		sets: controller.For[*appsv1.StatefulSet](d), events: d.Events(name), gauges: newGauges(d.Registerer),
		claims: informer.For[*corev1.PersistentVolumeClaim](d.Informers), claim: client.Of[*corev1.PersistentVolumeClaim](d.Client),
	}
	selects := func(set *appsv1.StatefulSet) (labels.Selector, error) {
		return metav1.LabelSelectorAsSelector(set.Spec.Selector)
	}
	r.pods = controller.OwnedBy[*corev1.Pod](d, r.sets)
	r.pods.Selects = selects
	r.pods.Member = func(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
		_, ok := ordinalOf(set, pod)
		return ok
	}
	r.revisions = controller.OwnedBy[*appsv1.ControllerRevision](d, r.sets)
	r.revisions.Selects = selects
	r.revisions.Quiet = true // Who changes its revisions has time to change several.
	return &controller.Spec{
		Name: name, Resource: "statefulsets", Workers: workers, Events: r.events, For: r.sets,
		Watches:   []controller.Watch{r.pods, r.revisions, controller.On(r.claims, r.claimChanged)},
		Reconcile: r.reconcile,
	}
}

// claimChanged asks for a reconcile of the set whose pod may have been waiting for a claim to go.
func (r *reconciler) claimChanged(q controller.Queue, old, now *corev1.PersistentVolumeClaim) {
	if old == nil || now != nil && equality.Semantic.DeepEqual(old.OwnerReferences, now.OwnerReferences) {
		return
	}
	// The name is that of the template, the set and the ordinal, each of which may have dashes.
	rest := old.Name[:max(strings.LastIndexByte(old.Name, '-'), 0)]
	for i := range rest {
		if rest[i] != '-' {
			continue
		}
		set, found := r.sets.Indexer().GetByKey(informer.KeyOf(old.Namespace, rest[i+1:]))
		if found && len(set.Spec.VolumeClaimTemplates) > 0 {
			q.Add(set)
		}
	}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	set, found := r.sets.Get(key)
	if !found {
		r.gauges.forget(key.Namespace, key.Name)
		return reconcile.Result{}, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf("reading the selector of StatefulSet %s: %w", key, err))
	}
	past, err := r.past(ctx, set, selector)
	if err != nil {
		return reconcile.Result{}, err
	}
	candidates, err := r.pods.Of(set)
	if err != nil {
		return reconcile.Result{}, err
	}
	pods, err := r.pods.Claim(ctx, set, candidates)
	if err != nil {
		return reconcile.Result{}, err
	}
	now := time.Now()
	if set.DeletionTimestamp != nil {
		// Its revisions and pods belong to the garbage collector.
		status := *set.Status.DeepCopy()
		status.ObservedGeneration = set.Generation
		wait := count(set, &status, pods, now)
		return reconcile.Result{RequeueAfter: wait}, r.updateStatus(ctx, set, status)
	}
	known, err := r.revise(ctx, set, past)
	if err != nil {
		return reconcile.Result{}, err
	}
	wait, err := r.act(ctx, set, known, pods, now)
	if lost := r.truncate(ctx, set, known, pods); err == nil {
		err = lost
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: wait}, nil
}

// act brings the pods of a set closer to what it asks for, and writes its status. It returns after how long
// the next pod becomes available.
func (r *reconciler) act(ctx context.Context, set *appsv1.StatefulSet, known *revisions, pods []*corev1.Pod,
	now time.Time) (time.Duration, error) {
	if set.Spec.UpdateStrategy.Type == appsv1.RecreateStatefulSetStrategyType {
		fault := fmt.Errorf("statefulset %s/%s uses Recreate strategy but feature gate StatefulSetRecreateStrategy is disabled", set.Namespace, set.Name)
		r.events.Event(set, corev1.EventTypeWarning, "UnknownStrategy", "%v", fault)
		return 0, reconcile.TerminalError(fault)
	}
	u := r.newUpdate(set, known, pods, now)
	err := u.run(ctx)
	if most, fault := maxUnavailable(set); fault == nil {
		r.gauges.set(set, most, u.unavailableReplicas())
	}
	status := *set.Status.DeepCopy()
	status.ObservedGeneration = set.Generation
	status.CurrentRevision, status.UpdateRevision = known.current.Name, known.update.Name
	status.CollisionCount = &known.collisions
	wait := count(set, &status, u.all(), now)
	status.CurrentReplicas -= u.replaced
	complete(set, &status)
	if lost := r.updateStatus(ctx, set, status); err == nil {
		err = lost
	}
	return wait, err
}
