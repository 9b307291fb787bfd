// Package nodelifecycle detects silent nodes and reports them in their status. It taints nodes by
// their conditions, so that pods go elsewhere, and deletes pods that do not tolerate those taints,
// or whose nodes are gone (kubernetes, pkg/controller/nodelifecycle, tainteviction and podgc).
package nodelifecycle

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/control"
)

const (
	name         = "node-lifecycle-controller"
	evictionName = "taint-eviction-controller"
	// DefaultGrace is how long a node may be silent before it counts as lost (Kubernetes,
	// --node-monitor-grace-period).
	DefaultGrace = 50 * time.Second
	// startupGrace is how long a node that has never reported may take to do so (Kubernetes,
	// --node-startup-grace-period).
	startupGrace = 60 * time.Second

	nodeIndex      = "node-lifecycle-controller"
	defaultWorkers = 8
)

// Controller is the node lifecycle controller.
type Controller struct {
	cfg    control.Config
	grace  time.Duration
	nodes  informer.SharedInformer[*corev1.Node]
	leases informer.SharedInformer[*coordinationv1.Lease]
	pods   informer.SharedInformer[*corev1.Pod]
	events *events.Recorder
}

// New returns the controller, which allows nodes to be silent for grace, and requests its
// informers.
func New(cfg control.Config, grace time.Duration) (*Controller, error) {
	c := &Controller{
		cfg: cfg, grace: grace,
		nodes:  informer.For[*corev1.Node](cfg.Informers),
		leases: informer.ForView[*coordinationv1.Lease](cfg.Informers, informer.View{Namespace: corev1.NamespaceNodeLease}),
		pods:   informer.For[*corev1.Pod](cfg.Informers),
		events: events.New(cfg.Client, "node-controller", "").WithLogger(cfg.Logger),
	}
	err := c.pods.AddIndexers(informer.Indexers[*corev1.Pod]{nodeIndex: func(pod *corev1.Pod) ([]string, error) {
		if pod.Spec.NodeName == "" {
			return nil, nil
		}
		return []string{pod.Spec.NodeName}, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("creating the %s: %w", name, err)
	}
	return c, nil
}

// Run reconciles until ctx ends. It may be called again after it has returned. Every node then gets
// its whole grace period anew, since nothing watched the nodes in between.
func (c *Controller) Run(ctx context.Context) error {
	r := &run{
		Controller: c, heard: map[string]heard{}, zones: newZones(), since: map[string]time.Time{}, gone: map[string]time.Time{},
		nodeClient: client.Of[*corev1.Node](c.cfg.Client), podClient: client.Of[*corev1.Pod](c.cfg.Client),
	}
	var handlers control.Handlers
	r.queue = reconcile.New(reconcile.Config[string]{
		Name: name, Workers: c.cfg.WorkersOr(defaultWorkers), Resource: "nodes",
		WaitFor: handlers.Checkers, Reads: &handlers.Reads,
		Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
			return control.Requeue(r.reconcileNode(ctx, key))
		},
		Logger: c.cfg.Logger, Registerer: c.cfg.Registerer, Trace: c.cfg.Trace,
	})
	r.evictions = reconcile.New(reconcile.Config[string]{
		Name: evictionName, Workers: c.cfg.WorkersOr(defaultWorkers), Resource: "pods",
		WaitFor: handlers.Checkers, Reads: &handlers.Reads,
		Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
			return control.Requeue(r.reconcilePod(ctx, key))
		},
		Logger: c.cfg.Logger, Registerer: c.cfg.Registerer, Trace: c.cfg.Trace,
	})
	for _, add := range []func() error{
		func() error { return control.Handle(&handlers, c.nodes, r.nodeHandler()) },
		func() error { return control.Handle(&handlers, c.leases, r.leaseHandler()) },
		func() error { return control.Handle(&handlers, c.pods, r.podHandler()) },
	} {
		if err := add(); err != nil {
			return handlers.Remove(fmt.Errorf("starting the %s: %w", name, err))
		}
	}
	return handlers.Remove(control.RunAll(ctx, c.events.Run, r.queue.Run, r.evictions.Run))
}

// run is one run of the controller, and holds what must not outlive it.
type run struct {
	*Controller
	nodeClient client.Resource[*corev1.Node]
	podClient  client.Resource[*corev1.Pod]
	queue      *reconcile.Controller[string]
	evictions  *reconcile.Controller[string]
	zones      *zones

	mu    sync.Mutex
	heard map[string]heard     // by node
	since map[string]time.Time // by pod UID: when its node was first seen with taints that do not say when they were added
	gone  map[string]time.Time // by node: since when it is known to be gone
}

func (r *run) nodeHandler() informer.ResourceEventHandler[*corev1.Node] {
	return informer.ResourceEventHandlerFuncs[*corev1.Node]{
		AddFunc: func(node *corev1.Node, _ bool) {
			r.notGone(node.Name)
			r.queue.Enqueue(node.Name)
			r.enqueuePods(node.Name)
		},
		UpdateFunc: func(old, node *corev1.Node) {
			r.queue.Enqueue(node.Name)
			if !sameTaints(noExecute(old), noExecute(node)) {
				r.enqueuePods(node.Name)
			}
		},
		DeleteFunc: func(gone informer.DeletedObject[*corev1.Node]) {
			r.queue.Enqueue(gone.Key)
			r.enqueuePods(gone.Key)
		},
	}
}

func (r *run) leaseHandler() informer.ResourceEventHandler[*coordinationv1.Lease] {
	return informer.ResourceEventHandlerFuncs[*coordinationv1.Lease]{
		AddFunc: func(lease *coordinationv1.Lease, _ bool) { r.queue.Enqueue(lease.Name) },
		UpdateFunc: func(_, lease *coordinationv1.Lease) {
			// Only a silent node needs a reconcile for this. The renewals of others are recorded
			// here, so that thousands of them cost next to nothing.
			if r.noteLease(lease, time.Now()) {
				r.queue.Enqueue(lease.Name)
			}
		},
	}
}

func (r *run) podHandler() informer.ResourceEventHandler[*corev1.Pod] {
	return informer.ResourceEventHandlerFuncs[*corev1.Pod]{
		AddFunc:    func(pod *corev1.Pod, _ bool) { r.podSeen(pod) },
		UpdateFunc: func(_, pod *corev1.Pod) { r.podSeen(pod) },
		DeleteFunc: func(gone informer.DeletedObject[*corev1.Pod]) {
			if gone.OptionalObj != nil {
				r.mu.Lock()
				delete(r.since, string(gone.OptionalObj.UID))
				r.mu.Unlock()
			}
		},
	}
}

// podSeen enqueues a pod whose node is gone or has NoExecute taints, and the node if it is not
// ready.
func (r *run) podSeen(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" {
		return
	}
	node, found := r.nodes.Indexer().GetByKey(pod.Spec.NodeName)
	if !found {
		r.evictions.Enqueue(informer.Key(pod))
		return
	}
	if len(noExecute(node)) > 0 {
		r.evictions.Enqueue(informer.Key(pod))
	}
	if !isReady(node) {
		r.queue.Enqueue(node.Name) // A pod that came late must be marked not ready too.
	}
}

func (r *run) enqueuePods(node string) {
	keys, err := r.pods.Indexer().IndexKeys(nodeIndex, node)
	if err != nil {
		r.cfg.Logger.Error("finding the pods of a node", "node", node, "err", err)
		return
	}
	for _, key := range keys {
		r.evictions.Enqueue(key)
	}
}
