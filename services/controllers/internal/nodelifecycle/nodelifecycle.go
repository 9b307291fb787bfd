// Package nodelifecycle detects silent nodes and reports them in their status. It taints nodes by
// their conditions, so that pods go elsewhere (kubernetes, pkg/controller/nodelifecycle). Package
// tainteviction deletes the pods that do not tolerate those taints.
package nodelifecycle

import (
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	name = "node-lifecycle-controller"

	nodeIndex = "node"
	workers   = 8
)

// reconciler reconciles nodes.
type reconciler struct {
	options Options
	nodes   *controller.Objects[*corev1.Node]
	leases  informer.SharedInformer[*coordinationv1.Lease]
	pods    informer.SharedInformer[*corev1.Pod]
	client  client.Resource[*corev1.Pod]
	events  *events.Recorder
	logger  *slog.Logger

	// Those are of one term.
	queue controller.Queue
	zones *zones

	mu    sync.Mutex
	heard map[string]heard // by node
}

// New declares the node lifecycle controller with options that Check accepts.
func New(d controller.Deps, options Options) *controller.Spec {
	r := &reconciler{
		options: options, nodes: controller.For[*corev1.Node](d),
		leases: informer.ForView[*coordinationv1.Lease](d.Informers, informer.View{Namespace: corev1.NamespaceNodeLease}),
		pods:   informer.For[*corev1.Pod](d.Informers), client: client.Of[*corev1.Pod](d.Client),
		events: d.Events("node-controller"), logger: d.Logger,
	}
	return &controller.Spec{
		Name: name, Resource: "nodes", Workers: workers, Unhurried: true, Begin: r.begin, Events: r.events, For: r.nodes,
		Watches: []controller.Watch{
			byNode(r.pods), controller.On(r.leases, r.leaseChanged), controller.On(r.pods, r.podChanged),
		},
		Reconcile: r.reconcile,
	}
}

// byNode returns the watch of pods through the index of their nodes.
func byNode(pods informer.SharedInformer[*corev1.Pod]) controller.Watch {
	return controller.Indexed(pods, nodeIndex, func(pod *corev1.Pod) ([]string, error) {
		if pod.Spec.NodeName == "" {
			return nil, nil
		}
		return []string{pod.Spec.NodeName}, nil
	})
}

// begin gives every node its whole grace period anew, since nothing watched the nodes before the term.
func (r *reconciler) begin(q controller.Queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue, r.zones, r.heard = q, newZones(r.options), map[string]heard{}
}

func (r *reconciler) leaseChanged(q controller.Queue, old, now *coordinationv1.Lease) {
	// Only a silent node needs a reconcile for a renewal. Those of others are recorded here, so that
	// thousands of them cost next to nothing.
	if now != nil && (old == nil || r.noteLease(now, time.Now())) {
		q.AddName("", now.Name)
	}
}

// podChanged asks for a reconcile of a pod's node if it is not ready: a pod that came late must be marked not
// ready too.
func (r *reconciler) podChanged(q controller.Queue, _, now *corev1.Pod) {
	if now == nil || now.Spec.NodeName == "" {
		return
	}
	if node, found := r.nodes.Indexer().GetByKey(now.Spec.NodeName); found && !isReady(node) {
		q.Add(node)
	}
}

// addOthers asks for reconciles of all nodes but one.
func (r *reconciler) addOthers(but string) {
	for _, node := range r.nodes.In("") {
		if node.Name != but {
			r.queue.Add(node)
		}
	}
}
