// Package cycle is the scheduler's loop. It takes the next pod from the queue, gets a node for it
// from placement, assumes it there at once and binds it in the background. If that fails, the pod
// goes back into the queue, and its condition and an Event state the reason.
package cycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/scheduler/internal/binding"
	"github.com/garboard/garboard/services/scheduler/internal/clusterview"
	"github.com/garboard/garboard/services/scheduler/internal/placement"
	"github.com/garboard/garboard/services/scheduler/internal/queue"
)

// writers is the maximum number of concurrent writes of bindings and conditions.
const writers = 32

// Config configures a loop; everything but Registerer and Trace is required.
type Config struct {
	// Client writes bindings and conditions.
	Client client.Interface
	// Informers follow pods, nodes, namespaces, storage and the pods' groups; the factory's creator runs it.
	Informers *informer.Factory
	// SchedulerName is the spec.schedulerName of the pods to schedule.
	SchedulerName string
	// Events records Scheduled and FailedScheduling.
	Events binding.Recorder
	// Logger receives one line for each failure that is not a pod's own.
	Logger *slog.Logger
	// Registerer receives the metrics; there are none when nil.
	Registerer prometheus.Registerer
	// Trace records a hop for each binding; none when nil.
	Trace *trace.Recorder
}

// Loop schedules pods while it runs.
type Loop struct {
	cfg        Config
	pods       informer.SharedInformer[*corev1.Pod]
	nodes      informer.SharedInformer[*corev1.Node]
	namespaces informer.SharedInformer[*corev1.Namespace]
	claims     informer.SharedInformer[*corev1.PersistentVolumeClaim]
	volumes    informer.SharedInformer[*corev1.PersistentVolume]
	classes    informer.SharedInformer[*storagev1.StorageClass]
	drivers    informer.SharedInformer[*storagev1.CSIDriver]
	capacities informer.SharedInformer[*storagev1.CSIStorageCapacity]
	groups     groupInformers
	binder     *binding.Binder
	metrics    metrics
}

// New returns a loop, and requests its informers from the factory.
func New(cfg Config) *Loop {
	return &Loop{
		cfg:        cfg,
		pods:       informer.For[*corev1.Pod](cfg.Informers),
		nodes:      informer.For[*corev1.Node](cfg.Informers),
		namespaces: informer.For[*corev1.Namespace](cfg.Informers),
		claims:     informer.For[*corev1.PersistentVolumeClaim](cfg.Informers),
		volumes:    informer.For[*corev1.PersistentVolume](cfg.Informers),
		classes:    informer.For[*storagev1.StorageClass](cfg.Informers),
		drivers:    informer.For[*storagev1.CSIDriver](cfg.Informers),
		capacities: informer.For[*storagev1.CSIStorageCapacity](cfg.Informers),
		groups:     newGroupInformers(cfg.Informers),
		binder:     binding.New(cfg.Client, cfg.Events, cfg.Trace),
		metrics:    newMetrics(cfg.Registerer, cfg.SchedulerName),
	}
}

// Run schedules until ctx ends, and returns when all writes have ended. It may be called again
// afterwards, once per term of leadership, and each time starts from the informers' present state.
func (l *Loop) Run(ctx context.Context) error {
	if err := l.indexStorage(); err != nil {
		return fmt.Errorf("starting to schedule: %w", err)
	}
	r := &run{Loop: l, queue: queue.New(), cache: clusterview.NewCache(), slots: make(chan struct{}, writers)}
	synced := l.groups.synced()
	for _, add := range []func() (informer.DoneChecker, func(), error){
		func() (informer.DoneChecker, func(), error) { return listen(l.nodes, r.nodeHandler()) },
		func() (informer.DoneChecker, func(), error) { return listen(l.namespaces, r.namespaceHandler()) },
		func() (informer.DoneChecker, func(), error) { return listen(l.claims, r.claimHandler()) },
		func() (informer.DoneChecker, func(), error) { return listen(l.volumes, r.volumeHandler()) },
		func() (informer.DoneChecker, func(), error) { return listen(l.classes, r.classHandler()) },
		func() (informer.DoneChecker, func(), error) { return listen(l.drivers, r.driverHandler()) },
		func() (informer.DoneChecker, func(), error) { return listen(l.capacities, r.capacityHandler()) },
		func() (informer.DoneChecker, func(), error) { return listen(l.pods, r.podHandler()) },
	} {
		checker, remove, err := add()
		if err != nil {
			return fmt.Errorf("starting to schedule: %w", err)
		}
		defer remove()
		synced = append(synced, checker)
	}
	if err := informer.WaitFor(ctx, "the scheduler's handlers", synced...); err != nil {
		return nil // ctx has ended.
	}
	l.cfg.Logger.Info("scheduling", "nodes", len(r.cache.Snapshot()), "pending", r.queue.Counts().Active)
	defer r.writes.Wait()
	r.metrics.pending.queue.Store(r.queue)
	defer r.metrics.pending.queue.Store(nil)
	for {
		item, err := r.queue.Pop(ctx)
		if err != nil {
			return nil // ctx has ended.
		}
		r.schedule(ctx, item)
	}
}

// listen adds a handler, and returns the function that removes it.
func listen[T informer.Object](i informer.SharedInformer[T],
	handler informer.ResourceEventHandler[T]) (synced informer.DoneChecker, remove func(), err error) {
	registration, err := i.AddEventHandler(handler)
	if err != nil {
		return nil, nil, err
	}
	// The registration is this informer's own, so removing it cannot fail.
	return registration.HasSyncedChecker(), func() { _ = i.RemoveEventHandler(registration) }, nil
}

// run is one Run of a loop.
type run struct {
	*Loop
	queue  *queue.Queue
	cache  *clusterview.Cache
	writes sync.WaitGroup
	// slots bounds the concurrent writes.
	slots   chan struct{}
	assumed assumed
}

// schedule makes one attempt.
func (r *run) schedule(ctx context.Context, item queue.Item) {
	start := time.Now()
	pod := item.Pod
	node, volumes, err := r.place(pod)
	var failure *placement.Failure
	switch {
	case errors.As(err, &failure):
		r.observe(resultUnschedulable, start)
		r.queue.Unschedulable(item, failure.Filters())
		r.write(ctx, func() { r.fail(ctx, pod, binding.Unschedulable, failure.Error()) })
		return
	case err != nil:
		r.observe(resultError, start)
		r.cfg.Logger.Error("placing a pod failed", "namespace", pod.Namespace, "name", pod.Name, "err", err)
		r.queue.Retry(item)
		r.write(ctx, func() { r.fail(ctx, pod, binding.SchedulerError, err.Error()) })
		return
	}
	if !r.cache.Assume(pod, node.Name) {
		return // The pod is on a node already; the informer notifies the queue of that.
	}
	if volumes.None() {
		r.write(ctx, func() { r.bind(ctx, item, node.Name, start) })
		return
	}
	// The next pod must not get the same volumes.
	assumed, claims, err := r.assumed.assume(volumes, node.Name)
	// Volumes take their time, which must not keep other pods from being bound.
	r.writes.Go(func() {
		if err == nil {
			err = r.bindVolumes(ctx, pod, node.Name, volumes, assumed, claims)
		}
		if err != nil {
			r.rejected(ctx, item, node.Name, start, fmt.Errorf(`running PreBind plugin "VolumeBinding": %w`, err))
			return
		}
		r.bind(ctx, item, node.Name, start)
	})
}

// place chooses a node and, on it, volumes. It turns a panic of placement into an error for this one
// pod.
func (r *run) place(pod *corev1.Pod) (node *clusterview.Node, volumes placement.Volumes, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.cfg.Logger.Error("placement panicked", "namespace", pod.Namespace, "name", pod.Name, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("placement panicked: %v", p)
		}
	}()
	cluster := placement.Cluster{
		Nodes: r.cache.Snapshot(), NamespaceLabels: r.namespaceLabels, Groups: r.groups.placement(), Storage: r.storage(),
	}
	if node, err = placement.Place(pod, cluster, rand.IntN); err != nil {
		return nil, volumes, err
	}
	volumes, err = placement.ChooseVolumes(pod, cluster, node)
	return node, volumes, err
}

func (r *run) namespaceLabels(name string) labels.Set {
	namespace, exists := r.namespaces.Indexer().GetByKey(name)
	if !exists {
		return nil
	}
	return namespace.Labels
}

// write runs a write in the background once a slot is free. After ctx has ended it runs the write
// all the same: the write fails at once, and restores the pod's state.
func (r *run) write(ctx context.Context, do func()) {
	release := func() {}
	select {
	case r.slots <- struct{}{}:
		release = func() { <-r.slots }
	case <-ctx.Done():
	}
	r.writes.Go(func() {
		defer release()
		do()
	})
}

func (r *run) bind(ctx context.Context, item queue.Item, node string, start time.Time) {
	pod := item.Pod
	err := r.binder.Bind(ctx, pod, node, start)
	if err == nil {
		r.observe(resultScheduled, start)
		r.metrics.bound(item)
		r.cfg.Logger.Debug("bound a pod", "namespace", pod.Namespace, "name", pod.Name, "node", node)
		return
	}
	r.rejected(ctx, item, node, start, fmt.Errorf("binding rejected: %w", err))
}

// rejected gives up a pod's place on a node, and tries again later.
func (r *run) rejected(ctx context.Context, item queue.Item, node string, start time.Time, err error) {
	pod := item.Pod
	r.cache.Forget(pod.UID)
	r.queue.Move(afterRemoval...)
	if ctx.Err() != nil {
		return
	}
	r.observe(resultError, start)
	if apierrors.IsNotFound(err) {
		// The pod or the node is gone. If it is the pod, the informer will report it.
		r.cfg.Logger.Debug("binding a pod failed", "namespace", pod.Namespace, "name", pod.Name, "node", node, "err", err)
	} else {
		r.cfg.Logger.Warn("binding a pod failed", "namespace", pod.Namespace, "name", pod.Name, "node", node, "err", err)
		r.fail(ctx, pod, binding.SchedulerError, err.Error())
	}
	r.queue.Retry(item)
}

func (r *run) fail(ctx context.Context, pod *corev1.Pod, reason, message string) {
	err := r.binder.Fail(ctx, pod, reason, message)
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		r.cfg.Logger.Warn("recording why a pod is not scheduled failed", "namespace", pod.Namespace, "name", pod.Name, "err", err)
	}
}

func (r *run) observe(result string, start time.Time) {
	r.metrics.attempts.WithLabelValues(result, r.cfg.SchedulerName).Inc()
	r.metrics.duration.WithLabelValues(result, r.cfg.SchedulerName).Observe(time.Since(start).Seconds())
}
