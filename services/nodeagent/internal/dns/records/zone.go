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

	mu sync.RWMutex
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
	slices map[string][]endpoint
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
	z.mu.Lock()
	defer z.mu.Unlock()
	z.update(made.wire, s.Namespace, func(g *group) { g.base = made })
}

// DeleteService removes a Service.
func (z *Zone) DeleteService(namespace, name string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	at := key(namespace, name)
	z.update(at, namespace, func(g *group) { g.base = &service{wire: at} })
}

// SetSlice adds or replaces an EndpointSlice. It reports whether its Service is headless and selects
// pods.
func (z *Zone) SetSlice(s *discoveryv1.EndpointSlice) (timed bool) {
	of := s.Labels[discoveryv1.LabelServiceName]
	var made []endpoint
	if of != "" {
		made = fromSlice(s)
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	name := s.Namespace + "/" + s.Name
	owner := key(s.Namespace, of)
	if old, ok := z.owners[name]; ok && old != owner {
		z.dropSlice(s.Namespace, name)
	}
	if of == "" {
		return false
	}
	z.owners[name] = owner
	z.update(owner, s.Namespace, func(g *group) { g.slices[name] = made })
	return z.groups[owner].base.timed
}

// DeleteSlice removes an EndpointSlice.
func (z *Zone) DeleteSlice(namespace, name string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.dropSlice(namespace, namespace+"/"+name)
}

// dropSlice removes a slice. The caller holds the lock.
func (z *Zone) dropSlice(namespace, name string) {
	owner, ok := z.owners[name]
	if !ok {
		return
	}
	delete(z.owners, name)
	z.update(owner, namespace, func(g *group) { delete(g.slices, name) })
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

// update changes one group and what follows from it. The caller holds the lock.
func (z *Zone) update(at, namespace string, change func(*group)) {
	g := z.groups[at]
	if g == nil {
		g = &group{base: &service{wire: at}, slices: map[string][]endpoint{}}
		g.built = g.base
		z.groups[at] = g
		z.countNamespace(namespace, 1)
	}
	change(g)
	old := g.built
	lists := make([][]endpoint, 0, len(g.slices))
	for _, name := range slices.Sorted(maps.Keys(g.slices)) {
		lists = append(lists, g.slices[name])
	}
	g.built = g.base.with(lists)
	z.reindex(old, g.built)
	if !g.base.exists && len(g.slices) == 0 {
		delete(z.groups, at)
		z.countNamespace(namespace, -1)
	}
	z.changed()
}

// reindex replaces the names of the addresses of a Service. The caller holds the lock.
func (z *Zone) reindex(old, built *service) {
	for addr, name := range old.reversed() {
		left := slices.DeleteFunc(slices.Clone(z.reverse[addr]), func(r reversed) bool { return r == name })
		if len(left) == 0 {
			delete(z.reverse, addr)
		} else {
			z.reverse[addr] = left
		}
	}
	for addr, name := range built.reversed() {
		// The clone keeps a list that a reader holds as it is.
		z.reverse[addr] = append(slices.Clone(z.reverse[addr]), name)
	}
}

// reversed calls yield with each address that has a name, and the name.
func (s *service) reversed() func(yield func(netip.Addr, reversed) bool) {
	return func(yield func(netip.Addr, reversed) bool) {
		if s.exists && !s.headless {
			for _, ip := range s.ips {
				if !yield(ip, reversed{service: s.wire}) {
					return
				}
			}
		}
		for _, e := range s.endpoints {
			if e.named && !yield(e.addr, reversed{service: s.wire, label: e.label}) {
				return
			}
		}
	}
}
