// Package nodeipam gives each node a range of addresses for its pods, as Kubernetes' node IPAM controller
// does with its range allocator (kubernetes, pkg/controller/nodeipam).
package nodeipam

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	name    = "node-ipam-controller"
	workers = 30
)

// reconciler reconciles nodes.
type reconciler struct {
	nodes    *controller.Objects[*corev1.Node]
	events   *events.Recorder
	logger   *slog.Logger
	metrics  *metrics
	specs    []spec
	services []netip.Prefix

	mu    sync.Mutex
	pools []*pool
	// held are the ranges of nodes, also those that a node is about to get.
	held map[string][]netip.Prefix
}

// New declares the node IPAM controller. It returns an error for options that Check rejects.
func New(d controller.Deps, options Options) (*controller.Spec, error) {
	specs, services, err := options.parse()
	if err != nil {
		return nil, fmt.Errorf("declaring the %s: %w", name, err)
	}
	r := &reconciler{
		nodes: controller.For[*corev1.Node](d), events: d.Events("cidrAllocator"), logger: d.Logger,
		metrics: newMetrics(d.Registerer), specs: specs, services: services,
	}
	return &controller.Spec{
		Name: name, Queue: "cidrallocator_node", Resource: "nodes", Workers: workers, Events: r.events, For: r.nodes,
		// All nodes have been seen before the first is reconciled, so that no range is given twice.
		Watches:   []controller.Watch{controller.On(r.nodes.SharedInformer, r.seen)},
		Reconcile: r.reconcile, Begin: r.begin,
	}, nil
}

// begin forgets what earlier terms knew.
func (r *reconciler) begin(controller.Queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pools, r.held = nil, map[string][]netip.Prefix{}
	for _, s := range r.specs {
		p := newPool(s)
		for _, service := range r.services {
			if p.cluster.Overlaps(service) {
				_ = p.occupy(service) // It overlaps, so this cannot fail.
			}
		}
		r.pools = append(r.pools, p)
		r.metrics.size(p)
	}
}

// seen occupies the ranges that a node has.
func (r *reconciler) seen(_ controller.Queue, old, now *corev1.Node) {
	if now == nil || len(now.Spec.PodCIDRs) == 0 || old != nil && slices.Equal(old.Spec.PodCIDRs, now.Spec.PodCIDRs) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var has []netip.Prefix
	for i, text := range now.Spec.PodCIDRs {
		prefix, err := parsePrefix(text)
		if err == nil && i >= len(r.pools) {
			err = fmt.Errorf("there is no cluster CIDR number %d", i)
		}
		used := 0
		if err == nil {
			used = r.pools[i].used
			err = r.pools[i].occupy(prefix)
		}
		if err != nil {
			r.logger.Error("a node has a range of pods that the cluster cidrs do not cover", "node", now.Name, "cidr", text, "err", err)
			break
		}
		if r.pools[i].used != used {
			r.metrics.occupied(r.pools[i])
		}
		has = append(has, prefix)
	}
	before := r.held[now.Name]
	r.held[now.Name] = has
	r.drop(before)
}

// drop frees ranges that no node holds and that no Service may have an address in.
func (r *reconciler) drop(ranges []netip.Prefix) {
	for i, prefix := range ranges {
		kept := slices.ContainsFunc(r.services, prefix.Overlaps)
		for _, others := range r.held {
			kept = kept || i < len(others) && others[i].Overlaps(prefix)
		}
		if !kept && i < len(r.pools) {
			_ = r.pools[i].free(prefix) // It was occupied, so it is within the cluster's range.
			r.metrics.released(r.pools[i])
		}
	}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	node, found := r.nodes.Get(key)
	if !found {
		r.release(key.Name)
		return reconcile.Result{}, nil
	}
	if node.DeletionTimestamp != nil || len(node.Spec.PodCIDRs) > 0 {
		return reconcile.Result{}, nil
	}
	ranges, err := r.allocate(key.Name)
	if err != nil {
		r.tell(node, "CIDRNotAvailable")
		return reconcile.Result{}, fmt.Errorf("allocating the pod CIDRs of node %s: %w", key, err)
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"podCIDR": ranges[0], "podCIDRs": ranges}})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("encoding the pod CIDRs of node %s: %w", key, err)
	}
	_, err = r.nodes.Client.Patch(ctx, "", key.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "")
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil // Its deletion releases them.
	case err != nil:
		// The node keeps them for the next attempt: this one may have succeeded.
		r.tell(node, "CIDRAssignmentFailed")
		return reconcile.Result{}, fmt.Errorf("setting the pod CIDRs of node %s: %w", key, err)
	}
	r.logger.Info("pod cidrs of a node set", "node", key.Name, "cidrs", ranges)
	return reconcile.Result{}, nil
}

// tell records a Normal Event with Kubernetes' text.
func (r *reconciler) tell(node *corev1.Node, reason string) {
	r.events.Event(node, corev1.EventTypeNormal, reason, "Node %s status is now: %s", node.Name, reason)
}

// allocate returns the ranges that a node holds, or else takes one of each cluster range, all or none.
func (r *reconciler) allocate(node string) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ranges := r.held[node]
	if len(ranges) != len(r.pools) {
		ranges = nil
		for i, p := range r.pools {
			prefix, tries, err := p.take()
			if err != nil {
				r.drop(ranges)
				return nil, fmt.Errorf("failed to allocate cidr from cluster cidr at idx:%d: %w", i, err)
			}
			r.metrics.allocated(p, tries)
			ranges = append(ranges, prefix)
		}
		r.held[node] = ranges
	}
	texts := make([]string, len(ranges))
	for i, prefix := range ranges {
		texts[i] = prefix.String()
	}
	return texts, nil
}

// release frees the ranges of a node that is gone.
func (r *reconciler) release(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ranges := r.held[node]
	delete(r.held, node)
	r.drop(ranges)
}
