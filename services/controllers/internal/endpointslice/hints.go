package endpointslice

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/endpointslice/topologycache"
	"k8s.io/endpointslice/trafficdist"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/serviceendpoints"
)

// hint sets the hints of the slices of a plan, which then also updates other slices whose hints are
// wrong. It returns the Events that tell of it.
func (r *reconciler) hint(svc *corev1.Service, addressType discoveryv1.AddressType, p *serviceendpoints.Plan,
	existing []*discoveryv1.EndpointSlice) []*topologycache.EventBuilder {
	info := &topologycache.SliceInfo{
		ServiceKey: key(svc), AddressType: addressType, ToCreate: p.Create, ToUpdate: p.Update, Unchanged: untouched(existing, p),
	}
	if byTopology(svc) {
		r.zones.refresh()
		var happened []*topologycache.EventBuilder
		p.Create, p.Update, happened = r.zones.cache.AddHints(logr.Discard(), info)
		return happened
	}
	var happened []*topologycache.EventBuilder
	if r.zones.cache.HasPopulatedHints(info.ServiceKey) {
		happened = append(happened, &topologycache.EventBuilder{
			EventType: corev1.EventTypeWarning, Reason: "TopologyAwareHintsDisabled",
			Message: topologycache.FormatWithAddressType(topologycache.TopologyAwareHintsDisabled, addressType),
		})
	}
	r.zones.cache.RemoveHints(info.ServiceKey, addressType)
	// Without a known distribution, this removes the hints.
	p.Create, p.Update, _ = trafficdist.ReconcileHints(svc.Spec.TrafficDistribution, p.Create, p.Update, info.Unchanged)
	return happened
}

// byTopology reports whether the annotations of a Service ask for hints by the CPUs of zones. The
// deprecated annotation goes first.
func byTopology(svc *corev1.Service) bool {
	mode, found := svc.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	if !found {
		mode = svc.Annotations[corev1.AnnotationTopologyMode]
	}
	return mode == "Auto" || mode == "auto"
}

// untouched returns the slices that a plan leaves as they are.
func untouched(existing []*discoveryv1.EndpointSlice, p *serviceendpoints.Plan) []*discoveryv1.EndpointSlice {
	var left []*discoveryv1.EndpointSlice
	for _, slice := range existing {
		same := func(other *discoveryv1.EndpointSlice) bool { return other.Name == slice.Name }
		if !slices.ContainsFunc(p.Update, same) && !slices.ContainsFunc(p.Delete, same) {
			left = append(left, slice)
		}
	}
	return left
}

// zones follows how the CPUs of nodes are spread over zones.
type zones struct {
	nodes  informer.SharedInformer[*corev1.Node]
	signal chan struct{}

	cache *topologycache.TopologyCache

	mu    sync.Mutex
	stale bool
	queue *controller.Queue
}

func newZones(nodes informer.SharedInformer[*corev1.Node]) *zones {
	return &zones{nodes: nodes, signal: make(chan struct{}, 1), cache: topologycache.NewTopologyCache(), stale: true}
}

// reset forgets what was known in an earlier term.
func (z *zones) reset() {
	z.cache = topologycache.NewTopologyCache()
	z.mu.Lock()
	defer z.mu.Unlock()
	z.stale, z.queue = true, nil
}

// forget forgets a Service.
func (z *zones) forget(key string) {
	for _, addressType := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
		z.cache.RemoveHints(key, addressType)
	}
}

// changed notes a change of a node.
func (z *zones) changed(q controller.Queue, old, now *corev1.Node) {
	if old != nil && now != nil && ready(old) == ready(now) &&
		old.Labels[corev1.LabelTopologyZone] == now.Labels[corev1.LabelTopologyZone] {
		return
	}
	z.mu.Lock()
	z.stale, z.queue = true, &q
	z.mu.Unlock()
	select {
	case z.signal <- struct{}{}:
	default: // It is on its way.
	}
}

// refresh reads the nodes again, if they have changed.
func (z *zones) refresh() {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.stale {
		z.cache.SetNodes(logr.Discard(), z.nodes.Indexer().List())
		z.stale = false
	}
}

// run asks for reconciles of Services whose zones have too few endpoints after a change of nodes.
func (z *zones) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-z.signal:
		}
		z.refresh()
		z.mu.Lock()
		queue := z.queue
		z.mu.Unlock()
		if queue == nil {
			continue // The signal is from the term before.
		}
		for _, service := range z.cache.GetOverloadedServices() {
			namespace, name, _ := strings.Cut(service, "/")
			queue.AddName(namespace, name)
		}
	}
}

func ready(node *corev1.Node) bool {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return node.Status.Conditions[i].Status == corev1.ConditionTrue
		}
	}
	return false
}
