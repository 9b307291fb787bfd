package records

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/dns/wire"
)

// Zone has the records of a cluster. Its methods may be called from several goroutines.
type Zone struct {
	domain wire.Name
	synced atomic.Bool
	serial atomic.Uint32

	// writing is held by what changes the zone, mu only while a change takes effect: answers must not
	// wait until the records of a large Service are made.
	writing sync.Mutex
	mu      sync.RWMutex
	// groups has what is known of each Service, by the wire form of "<service>.<namespace>".
	groups map[string]*group
	// owners has the key of the Service of each slice, by namespace and name of the slice.
	owners map[string]string
	// reverse has the names of addresses.
	reverse map[netip.Addr][]reversed
	// namespaces counts, for each namespace in wire form, the groups there and the Namespace.
	namespaces map[string]int
	// followed reports whether Namespaces are known besides those of Services.
	followed bool
}

// group is a Service with its slices.
type group struct {
	// base is the Service without endpoints.
	base   *service
	slices map[string]*slice
	// built is base with the endpoints of all slices.
	built *service
}

// reversed is a name that an address has: of a Service, or with a label that of an endpoint.
type reversed struct {
	service, label string
}

// New returns the zone of a domain such as "cluster.local", without records.
func New(domain wire.Name) *Zone {
	z := &Zone{
		domain: domain, groups: map[string]*group{}, owners: map[string]string{},
		reverse: map[netip.Addr][]reversed{}, namespaces: map[string]int{},
	}
	z.changed()
	return z
}

// Domain returns the name of the zone.
func (z *Zone) Domain() *wire.Name { return &z.domain }

// Serial returns the serial number of the zone: when it last changed, in seconds since 1970.
func (z *Zone) Serial() uint32 { return z.serial.Load() }

func (z *Zone) changed() { z.serial.Store(uint32(time.Now().Unix())) }

// MarkSynced says that the zone now holds all objects. Before, a missing name may exist.
func (z *Zone) MarkSynced() { z.synced.Store(true) }

// Synced reports whether MarkSynced was called.
func (z *Zone) Synced() bool { return z.synced.Load() }

// SetService adds or replaces a Service.
func (z *Zone) SetService(s *corev1.Service) {
	made := fromService(s)
	z.writing.Lock()
	defer z.writing.Unlock()
	g := z.group(made.wire)
	old := g.base
	g.base = made
	z.apply(made.wire, s.Namespace, g, old.names(), made.names())
}

// DeleteService removes a Service.
func (z *Zone) DeleteService(namespace, name string) {
	z.writing.Lock()
	defer z.writing.Unlock()
	at := key(namespace, name)
	g := z.group(at)
	old := g.base
	g.base = &service{wire: at}
	z.apply(at, namespace, g, old.names(), nil)
}

// SetSlice adds or replaces an EndpointSlice. It reports whether its Service is headless and selects
// pods.
func (z *Zone) SetSlice(s *discoveryv1.EndpointSlice) (timed bool) {
	of := s.Labels[discoveryv1.LabelServiceName]
	made := fromSlice(s)
	z.writing.Lock()
	defer z.writing.Unlock()
	name := s.Namespace + "/" + s.Name
	owner := key(s.Namespace, of)
	if old, ok := z.owners[name]; ok && old != owner {
		z.dropSlice(s.Namespace, name)
	}
	if of == "" {
		return false
	}
	z.owners[name] = owner
	g := z.group(owner)
	old := g.slices[name]
	g.slices[name] = made
	z.apply(owner, s.Namespace, g, old.names(owner), made.names(owner))
	return g.base.timed
}

// DeleteSlice removes an EndpointSlice.
func (z *Zone) DeleteSlice(namespace, name string) {
	z.writing.Lock()
	defer z.writing.Unlock()
	z.dropSlice(namespace, namespace+"/"+name)
}

// dropSlice removes a slice. The caller holds the lock for writing.
func (z *Zone) dropSlice(namespace, name string) {
	owner, ok := z.owners[name]
	if !ok {
		return
	}
	delete(z.owners, name)
	g := z.group(owner)
	old := g.slices[name]
	delete(g.slices, name)
	z.apply(owner, namespace, g, old.names(owner), nil)
}

// FollowNamespaces says that SetNamespace tells which namespaces there are. Without it, those exist
// that have a Service or slice, and pods have names in every namespace.
func (z *Zone) FollowNamespaces() {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.followed = true
}

// SetNamespace says that a namespace exists.
func (z *Zone) SetNamespace(name string) { z.addNamespace(name, 1) }

// DeleteNamespace says that a namespace does not exist any more.
func (z *Zone) DeleteNamespace(name string) { z.addNamespace(name, -1) }

func (z *Zone) addNamespace(name string, n int) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.countNamespace(name, n)
}

// countNamespace changes how many objects say that a namespace exists. The caller holds the lock.
func (z *Zone) countNamespace(name string, n int) {
	if z.namespaces[name] += n; z.namespaces[name] <= 0 {
		delete(z.namespaces, name)
	}
}

// group returns the group of a Service, which is new if the zone has none. The caller holds the lock
// for writing, under which alone groups change.
func (z *Zone) group(at string) *group {
	if g := z.groups[at]; g != nil {
		return g
	}
	return &group{base: &service{wire: at}, slices: map[string]*slice{}}
}

// apply makes the change of a group take effect, with the names that addresses lose and get. The
// caller holds the lock for writing.
func (z *Zone) apply(at, namespace string, g *group, lost, got []named) {
	lists := make([]*slice, 0, len(g.slices))
	for _, name := range slices.Sorted(maps.Keys(g.slices)) {
		lists = append(lists, g.slices[name])
	}
	built := g.base.with(lists)
	z.mu.Lock()
	defer z.mu.Unlock()
	g.built = built
	known, exists := z.groups[at] != nil, g.base.exists || len(g.slices) > 0
	switch {
	case exists && !known:
		z.groups[at] = g
		z.countNamespace(namespace, 1)
	case !exists && known:
		delete(z.groups, at)
		z.countNamespace(namespace, -1)
	}
	for _, n := range lost {
		names := z.reverse[n.addr]
		if i := slices.Index(names, n.name); i >= 0 {
			names = slices.Delete(names, i, i+1)
		}
		if len(names) == 0 {
			delete(z.reverse, n.addr)
		} else {
			z.reverse[n.addr] = names
		}
	}
	for _, n := range got {
		z.reverse[n.addr] = append(z.reverse[n.addr], n.name)
	}
	z.changed()
}

// named is an address with a name of it.
type named struct {
	addr netip.Addr
	name reversed
}

// names returns the names of the addresses of the Service itself.
func (s *service) names() (names []named) {
	if s.headless {
		return nil
	}
	for _, ip := range s.ips {
		names = append(names, named{ip, reversed{service: s.wire}})
	}
	return names
}

// names returns the names of the endpoints of a slice. The slice may be nil.
func (s *slice) names(of string) (names []named) {
	if s == nil {
		return nil
	}
	for _, e := range s.endpoints {
		names = append(names, named{e.addr, reversed{service: of, label: e.label}})
	}
	return names
}
