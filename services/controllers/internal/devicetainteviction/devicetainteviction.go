// Package devicetainteviction deletes pods whose devices have NoExecute taints that their claims do not, or no
// longer, tolerate. The taints come from the drivers, in ResourceSlices, and from DeviceTaintRules, whose
// status says how far that is (kubernetes, pkg/controller/devicetainteviction). Claims of pod groups have no
// effect: the gate DRAWorkloadResourceClaims is off by default.
package devicetainteviction

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/podeviction"
)

const (
	name      = "device-taint-eviction-controller"
	ruleQueue = "device-taint-eviction-controller-rules"
	workers   = 8
	// reason is that of all Events.
	reason = "DeviceTaintManagerEviction"

	// claimPoolIndex and slicePoolIndex find claims and slices by the pools of their devices.
	claimPoolIndex = "pools of resource claims"
	slicePoolIndex = "pools of resource slices"
)

// reconciler reconciles pods, and DeviceTaintRules in a queue beside.
type reconciler struct {
	devices
	pods    *controller.Objects[*corev1.Pod]
	rules   *controller.Objects[*resourcev1.DeviceTaintRule]
	events  *events.Recorder
	metrics podeviction.Metrics
	logger  *slog.Logger

	// Those are of one term.
	mu    sync.Mutex
	queue *controller.Queue       // of rules
	plans map[types.UID]time.Time // by pod: when it will be deleted
	// evicted counts the pods that have been deleted because of a rule.
	evicted map[types.UID]int
}

// New declares the controller. Its first queue holds pods, the one beside it DeviceTaintRules.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{
		pods: controller.For[*corev1.Pod](d), rules: controller.For[*resourcev1.DeviceTaintRule](d), events: d.Events(name),
		metrics: podeviction.ByDeviceTaints(d.Registerer), logger: d.Logger,
		plans: map[types.UID]time.Time{}, evicted: map[types.UID]int{},
	}
	r.devices = devices{
		claims: informer.For[*resourcev1.ResourceClaim](d.Informers), slices: informer.For[*resourcev1.ResourceSlice](d.Informers),
		rules: r.rules.SharedInformer,
	}
	r.pods.Handle = r.podChanged
	r.rules.Changed = func(old, now *resourcev1.DeviceTaintRule) bool { return ruleDiffers(old, now) }
	claims := controller.Indexed(r.claims, claimPoolIndex, claimPools)
	slices := controller.Indexed(r.slices, slicePoolIndex, slicePools)
	return &controller.Spec{
		Name: name, Resource: "pods", Workers: workers, Unhurried: true, Begin: r.begin, Events: r.events, For: r.pods,
		Watches: []controller.Watch{
			claims, slices, controller.On(r.claims, r.claimChanged), controller.On(r.slices, r.sliceChanged),
			controller.On(r.rules.SharedInformer, r.ruleChanged),
		},
		Reconcile: r.reconcile,
		Beside: []*controller.Spec{{
			Name: name, Queue: ruleQueue, Resource: "devicetaintrules", Workers: 1, Begin: r.beginRules, For: r.rules,
			Watches:   []controller.Watch{claims, slices, controller.Reads(r.pods.SharedInformer)},
			Reconcile: r.reconcileRule,
		}},
	}
}

func (r *reconciler) begin(controller.Queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plans, r.evicted = map[types.UID]time.Time{}, map[types.UID]int{}
}

func (r *reconciler) beginRules(q controller.Queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = &q
}

// podChanged asks for a reconcile of a pod that has come to a node, or has new claims.
func (r *reconciler) podChanged(q controller.Queue, old, now *corev1.Pod) {
	if old != nil && (now == nil || now.UID != old.UID) {
		r.forget(old)
	}
	switch {
	case now == nil, now.Spec.NodeName == "", len(now.Spec.ResourceClaims) == 0:
	case old != nil && old.UID == now.UID && old.Spec.NodeName == now.Spec.NodeName && sameClaims(old, now):
	default:
		q.Add(now)
	}
}

// claimChanged asks for reconciles of the pods that a claim is, or was, reserved for.
func (r *reconciler) claimChanged(q controller.Queue, old, now *resourcev1.ResourceClaim) {
	if old != nil && now != nil && sameUse(old, now) {
		return
	}
	for _, claim := range []*resourcev1.ResourceClaim{old, now} {
		if claim != nil {
			r.addUsers(q, claim)
		}
	}
}

// sliceChanged asks for reconciles of the pods with devices of a pool whose taints have changed.
func (r *reconciler) sliceChanged(q controller.Queue, old, now *resourcev1.ResourceSlice) {
	if old != nil && now != nil && sameTaints(old, now) {
		return
	}
	for _, slice := range []*resourcev1.ResourceSlice{old, now} {
		if slice == nil {
			continue
		}
		claims, err := r.claims.Indexer().ByIndex(claimPoolIndex, poolOf(slice))
		if err != nil {
			r.logger.Error("finding the claims of a pool", "driver", slice.Spec.Driver, "pool", slice.Spec.Pool.Name, "err", err)
			return
		}
		for _, claim := range claims {
			r.addUsers(q, claim)
		}
	}
}

// ruleChanged asks for reconciles of the pods with devices that a rule selects, or did select.
func (r *reconciler) ruleChanged(q controller.Queue, old, now *resourcev1.DeviceTaintRule) {
	if old != nil && now != nil && !ruleDiffers(old, now) {
		return
	}
	if old != nil && (now == nil || now.UID != old.UID) {
		r.mu.Lock()
		delete(r.evicted, old.UID)
		r.mu.Unlock()
	}
	for _, claim := range r.claims.Indexer().List() {
		if selects(old, claim) > 0 || selects(now, claim) > 0 {
			r.addUsers(q, claim)
		}
	}
}

// addUsers asks for reconciles of the pods that a claim is reserved for.
func (r *reconciler) addUsers(q controller.Queue, claim *resourcev1.ResourceClaim) {
	for _, pod := range r.users(claim) {
		q.Add(pod)
	}
}

// users returns the pods that a claim is reserved for.
func (r *reconciler) users(claim *resourcev1.ResourceClaim) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, consumer := range claim.Status.ReservedFor {
		if consumer.APIGroup != "" || consumer.Resource != "pods" {
			continue
		}
		pod, found := r.pods.Indexer().GetByKey(informer.KeyOf(claim.Namespace, consumer.Name))
		if found && pod.UID == consumer.UID {
			pods = append(pods, pod)
		}
	}
	return pods
}

// reconcile deletes a pod with a device whose taints it does not, or no longer, tolerate.
func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	pod, found := r.pods.Get(key)
	if !found || pod.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	now := time.Now()
	e := r.eviction(pod)
	if e == nil {
		if r.forget(pod) {
			r.events.Event(pod, corev1.EventTypeNormal, reason, "Cancelling deletion")
		}
		return reconcile.Result{}, nil
	}
	r.reportLater(e.rules)
	if e.at.After(now) {
		r.plan(pod, e.at)
		return reconcile.Result{RequeueAfter: e.at.Sub(now)}, nil
	}
	return reconcile.Result{}, r.evict(ctx, pod, e)
}

func (r *reconciler) evict(ctx context.Context, pod *corev1.Pod, e *eviction) error {
	r.plan(pod, e.at) // It stays planned until it has succeeded.
	r.logger.Info("deleting a pod because of its devices' taints", "namespace", pod.Namespace, "name", pod.Name, "rules", len(e.rules))
	r.events.Event(pod, corev1.EventTypeNormal, reason, "Marking for deletion")
	err := podeviction.Delete(ctx, r.pods.Client, pod, "DeletionByDeviceTaintManager", "Device Taint manager: deleting due to NoExecute taint")
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	r.forget(pod)
	if err != nil {
		return nil
	}
	r.metrics.Deleted(time.Since(e.at).Seconds())
	r.mu.Lock()
	for _, rule := range e.rules {
		r.evicted[rule.UID]++
	}
	r.mu.Unlock()
	return nil
}

func (r *reconciler) plan(pod *corev1.Pod, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plans[pod.UID] = at
}

// forget drops the plan to delete a pod, and reports whether there was one.
func (r *reconciler) forget(pod *corev1.Pod) (planned bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, planned = r.plans[pod.UID]
	delete(r.plans, pod.UID)
	return planned
}

// reportLater asks for new statuses of rules when more pods may have followed.
func (r *reconciler) reportLater(rules []*resourcev1.DeviceTaintRule) {
	r.mu.Lock()
	queue := r.queue
	r.mu.Unlock()
	if queue == nil {
		return // The queue of rules has not begun; it begins with all of them.
	}
	for _, rule := range rules {
		queue.AddAfter(rule, statusPeriod)
	}
}
