// Package ttl annotates each node with how long its node agent may use a Secret or ConfigMap that it has
// read, which grows with the cluster, as Kubernetes' TTL controller does (kubernetes, pkg/controller/ttl).
package ttl

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	name    = "ttl-controller"
	workers = 5
)

// steps are the times to live, in seconds, by the number of nodes. The ranges overlap, so that a cluster
// at a boundary does not go back and forth.
var steps = []struct{ least, most, seconds int }{
	{0, 100, 0}, {90, 500, 15}, {450, 1000, 30}, {900, 2000, 60}, {1800, math.MaxInt32, 300},
}

// reconciler reconciles nodes.
type reconciler struct {
	nodes *controller.Objects[*corev1.Node]

	mu sync.Mutex
	// known are the names of the nodes.
	known map[string]bool
	step  int
}

// New declares the TTL controller.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{nodes: controller.For[*corev1.Node](d)}
	return &controller.Spec{
		Name: name, Queue: "ttlcontroller", Resource: "nodes", Workers: workers, For: r.nodes,
		Watches: []controller.Watch{controller.On(r.nodes.SharedInformer, func(_ controller.Queue, old, now *corev1.Node) {
			if old == nil {
				r.count(now.Name, true)
			}
		})},
		Reconcile: r.reconcile,
		Begin: func(controller.Queue) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.known, r.step = map[string]bool{}, 0
		},
	}
}

// count notes a node that exists or does not, and returns the time to live for the number of nodes.
func (r *reconciler) count(node string, exists bool) (seconds int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if exists {
		r.known[node] = true
	} else {
		delete(r.known, node)
	}
	for n := len(r.known); n > steps[r.step].most; {
		r.step++
	}
	for n := len(r.known); n < steps[r.step].least; {
		r.step--
	}
	return steps[r.step].seconds
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	node, found := r.nodes.Get(key)
	seconds := r.count(key.Name, found)
	if !found {
		return reconcile.Result{}, nil
	}
	if current, err := strconv.Atoi(node.Annotations[corev1.ObjectTTLAnnotationKey]); err == nil && current == seconds {
		return reconcile.Result{}, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{corev1.ObjectTTLAnnotationKey: strconv.Itoa(seconds)},
	}})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("encoding the annotation of node %s: %w", key, err)
	}
	_, err = r.nodes.Client.Patch(ctx, "", key.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "")
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("annotating node %s with a time to live of %d s: %w", key, seconds, err)
	}
	return reconcile.Result{}, nil
}
