// Package horizontalpodautoscaler scales what HorizontalPodAutoscalers target, by what its pods use and by
// other metrics, as Kubernetes' controller does (kubernetes, pkg/controller/podautoscaler).
//
// An autoscaler is reconciled when it is new, when its spec changes, and again after each period. What it
// recommended and did before is kept in memory for one term only.
package horizontalpodautoscaler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/replicacalculator"
)

const (
	name = "horizontal-pod-autoscaler-controller"
	// component is the source of the Events.
	component = "horizontal-pod-autoscaler"
	// shortestPeriod bounds how often an autoscaler is reconciled.
	shortestPeriod = 100 * time.Millisecond
)

// Options are the settings of the controller. The zero value stands for DefaultOptions.
type Options struct {
	// Workers is how many autoscalers are reconciled at a time.
	Workers int
	// SyncPeriod is after what time an autoscaler is reconciled again.
	SyncPeriod time.Duration
	// DownscaleStabilization is for how long no fewer replicas are asked for than were recommended within,
	// unless the autoscaler has a window of its own.
	DownscaleStabilization time.Duration
	// Tolerance is by what share a metric may differ from its target before anything is scaled, unless the
	// autoscaler has its own.
	Tolerance float64
	// CPUInitialization is for how long after a pod's start its use of CPU counts only once it is ready, and
	// measured since.
	CPUInitialization time.Duration
	// InitialReadinessDelay is within what time after a pod's start a change of its readiness counts as the
	// first.
	InitialReadinessDelay time.Duration
}

// DefaultOptions returns Kubernetes' settings.
func DefaultOptions() Options {
	return Options{
		Workers: 5, SyncPeriod: 15 * time.Second, DownscaleStabilization: 5 * time.Minute, Tolerance: 0.1,
		CPUInitialization: 5 * time.Minute, InitialReadinessDelay: 30 * time.Second,
	}
}

// Check returns everything that is wrong.
func (o Options) Check() error {
	o = cmp.Or(o, DefaultOptions())
	var faults []error
	if o.Workers < 1 {
		faults = append(faults, fmt.Errorf("--concurrent-horizontal-pod-autoscaler-syncs is %d, must be greater than 0", o.Workers))
	}
	if o.SyncPeriod < shortestPeriod {
		faults = append(faults, fmt.Errorf("--horizontal-pod-autoscaler-sync-period is %v, must be at least %v", o.SyncPeriod, shortestPeriod))
	}
	if !(o.Tolerance >= 0) || math.IsInf(o.Tolerance, 0) {
		faults = append(faults, fmt.Errorf("--horizontal-pod-autoscaler-tolerance is %v, must be a number that is not negative", o.Tolerance))
	}
	for _, one := range []struct {
		flag  string
		value time.Duration
	}{
		{"downscale-stabilization", o.DownscaleStabilization}, {"cpu-initialization-period", o.CPUInitialization},
		{"initial-readiness-delay", o.InitialReadinessDelay},
	} {
		if one.value < 0 {
			faults = append(faults, fmt.Errorf("--horizontal-pod-autoscaler-%s is %v, must not be negative", one.flag, one.value))
		}
	}
	return errors.Join(faults...)
}

// reconciler reconciles HorizontalPodAutoscalers.
type reconciler struct {
	options     Options
	client      client.Interface
	calculator  replicacalculator.Calculator
	autoscalers *controller.Objects[*autoscalingv2.HorizontalPodAutoscaler]
	pods        *controller.Objects[*corev1.Pod]
	histories   histories
	selectors   selectors
	metrics     *metrics
	events      *events.Recorder
	logger      *slog.Logger
}

// New declares the HorizontalPodAutoscaler controller. It scales objects of all kinds, also of those that
// definitions, unless nil, waits for.
func New(d controller.Deps, definitions informer.DoneChecker, measured replicacalculator.Metrics, options Options) *controller.Spec {
	options = cmp.Or(options, DefaultOptions())
	r := &reconciler{
		options: options, client: d.Client,
		calculator: replicacalculator.Calculator{
			Metrics: measured, CPUInitialization: options.CPUInitialization, ReadinessDelay: options.InitialReadinessDelay,
		},
		autoscalers: controller.For[*autoscalingv2.HorizontalPodAutoscaler](d), pods: controller.For[*corev1.Pod](d),
		metrics: newMetrics(d.Registerer), events: d.Events(component), logger: d.Logger,
	}
	r.autoscalers.Changed = func(old, now *autoscalingv2.HorizontalPodAutoscaler) bool {
		return old.Generation != now.Generation || old.UID != now.UID
	}
	spec := &controller.Spec{
		Name: name, Queue: "horizontalpodautoscaler", Resource: "horizontalpodautoscalers", Workers: options.Workers, Events: r.events,
		For: r.autoscalers, Watches: []controller.Watch{controller.Reads(r.pods.SharedInformer)},
		Begin: func(controller.Queue) { r.begin() }, Reconcile: r.reconcile,
	}
	if definitions != nil {
		spec.WaitFor = append(spec.WaitFor, definitions)
	}
	return spec
}

// begin forgets what was kept in an earlier term.
func (r *reconciler) begin() {
	r.histories.clear()
	r.selectors.clear()
	r.metrics.clear()
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	shared, found := r.autoscalers.Get(key)
	if !found {
		r.selectors.remove(key.Namespace, key.Name)
		r.metrics.forget(key.Namespace, key.Name, r.histories.remove(key.String()))
		return reconcile.Result{}, nil
	}
	p := &pass{reconciler: r, hpa: shared.DeepCopy(), now: time.Now()}
	p.history = r.histories.of(key.String(), shared.UID)
	r.metrics.autoscalers.Set(float64(r.histories.size()))
	action, err := p.run(ctx)
	r.metrics.reconciled(action, err, time.Since(p.now))
	if err != nil && ctx.Err() == nil {
		// It comes again after the period, as in Kubernetes: what is wrong lasts until something else changes.
		r.logger.WarnContext(ctx, "cannot scale", "err", err, "namespace", key.Namespace, "name", key.Name)
	}
	return reconcile.Result{RequeueAfter: r.options.SyncPeriod}, nil
}

// podsOf returns the pods of a namespace that a selector selects.
func (r *reconciler) podsOf(namespace string, selector labels.Selector) []*corev1.Pod {
	var selected []*corev1.Pod
	for _, pod := range r.pods.In(namespace) {
		if selector.Matches(labels.Set(pod.Labels)) {
			selected = append(selected, pod)
		}
	}
	return selected
}

// specError is a fault of an autoscaler's spec.
type specError struct{ err error }

func (e specError) Error() string { return e.err.Error() }

func (e specError) Unwrap() error { return e.err }
