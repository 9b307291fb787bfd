// Package registrytest runs registries on an etcd of their own, for tests.
package registrytest

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/builtin"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/allocate"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/dualstack"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/systemobjects"
)

// Patience bounds what a test waits for.
const Patience = time.Minute

// Config configures a World. The zero value is a cluster with Kubernetes' default ranges.
type Config struct {
	// Config configures the registry. The world sets the catalog and the store, and the feeds unless
	// they are given.
	registry.Config
	// Etcd is the etcd to use; a new one if nil.
	Etcd *etcdtest.Server
	// Dial are options of the connection to etcd.
	Dial []grpc.DialOption
	// Feed configures the feeds; the world sets the store and the table, and Patience if it is zero.
	Feed feed.Config
	// ServiceCIDRs are the ranges of service addresses; 10.96.0.0/12 if there are none.
	ServiceCIDRs []netip.Prefix
	// Advertise is the address of the apiserver.
	Advertise netip.AddrPort
	// DNS has the Service of the DNS servers created.
	DNS bool
	// NodePorts is the range of node ports; the zero value means 30000-32767.
	NodePorts allocate.PortRange
}

// World is a registry of the built-in kinds, like one apiserver.
type World struct {
	*registry.Registry
	T       testing.TB
	Etcd    *etcdtest.Server
	Table   *scheme.Table
	Catalog *kinds.Catalog
	Store   *store.Store
	Feeds   *feed.Feeds
	// Services hands out the addresses and ports of services.
	Services *allocate.Services
	// Objects maintains the system's objects, which exist in a New world.
	Objects *systemobjects.Objects

	config Config
}

// New returns a world with the objects that an apiserver maintains, and with the default service
// account in the namespace "default".
func New(t testing.TB, change ...func(*Config)) *World {
	t.Helper()
	config := Config{}
	for _, c := range change {
		c(&config)
	}
	w := newWorld(t, scheme.New(), config)
	if err := w.Objects.Ensure(t.Context()); err != nil {
		t.Fatalf("creating the system's objects: %v", err)
	}
	Create(w, "default", &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	return w
}

// Another returns a further world on w's etcd with its own connection and feeds, like a second
// apiserver. It has the configuration of w with the changes. It creates no objects.
func (w *World) Another(change ...func(*Config)) *World {
	w.T.Helper()
	config := w.config
	config.Etcd, config.Feeds = w.Etcd, nil
	for _, c := range change {
		c(&config)
	}
	return newWorld(w.T, w.Table, config)
}

func newWorld(t testing.TB, table *scheme.Table, config Config) *World {
	t.Helper()
	if config.Etcd == nil {
		config.Etcd = etcdtest.Start(t)
	}
	if len(config.ServiceCIDRs) == 0 {
		config.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}
	}
	w := &World{T: t, Etcd: config.Etcd, Table: table, config: config}
	var err error
	w.Store, err = store.Open(t.Context(), store.Config{
		Servers: w.Etcd.Endpoints(), Prefix: "/registry", Table: table, DialOptions: config.Dial,
	})
	if err != nil {
		t.Fatalf("opening the store: %v", err)
	}
	t.Cleanup(func() {
		if err := w.Store.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	if w.Feeds = config.Feeds; w.Feeds == nil {
		w.follow(config.Feed)
	}
	w.Services, err = allocate.New(allocate.Config{Store: w.Store, Table: table, NodePorts: config.NodePorts})
	if err != nil {
		t.Fatalf("making the allocator: %v", err)
	}
	w.Catalog, err = builtin.Catalog(table, builtin.Config{Families: dualstack.FamiliesOf(config.ServiceCIDRs), Services: w.Services})
	if err != nil {
		t.Fatalf("making the catalog: %v", err)
	}
	config.Catalog, config.Store, config.Feeds = w.Catalog, w.Store, w.Feeds
	if w.Registry, err = registry.New(config.Config); err != nil {
		t.Fatalf("making the registry: %v", err)
	}
	w.Objects, err = systemobjects.New(systemobjects.Config{
		Table: table, Registry: w.Registry, Store: w.Store, Services: w.Services,
		ServiceCIDRs: config.ServiceCIDRs, Advertise: config.Advertise, DNS: config.DNS,
	})
	if err != nil {
		t.Fatalf("making the system's objects: %v", err)
	}
	return w
}

// Ports returns another allocator of the same node ports: the state is in etcd.
func (w *World) Ports() *allocate.Ports {
	w.T.Helper()
	ports, err := allocate.NewPorts(w.Store, cmp.Or(w.config.NodePorts, allocate.DefaultNodePorts()))
	if err != nil {
		w.T.Fatal(err)
	}
	return ports
}

// follow runs feeds until the test ends, and waits until they are filled.
func (w *World) follow(config feed.Config) {
	w.T.Helper()
	config.Store, config.Table, config.Patience = w.Store, w.Table, cmp.Or(config.Patience, Patience)
	w.Feeds = feed.New(config)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.T.Context()))
	ended := make(chan error, 1)
	go func() { ended <- w.Feeds.Run(ctx) }()
	w.T.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			w.T.Errorf("the feeds ended: %v", err)
		}
	})
	if err := w.Feeds.Ready(w.T.Context()); err != nil {
		w.T.Fatalf("waiting for the feeds: %v", err)
	}
}

// Of returns the resource of the kind with the Go type T.
func Of[T scheme.Object](w *World) *registry.Resource { return w.Resource(scheme.For[T](w.Table)) }

// Create creates obj or fails the test.
func Create[T scheme.Object](w *World, namespace string, obj T) T {
	w.T.Helper()
	created, err := Of[T](w).Create(w.T.Context(), namespace, obj, metav1.CreateOptions{})
	if err != nil {
		w.T.Fatalf("creating %T %s: %v", obj, obj.GetName(), err)
	}
	return created.(T)
}

// Update changes a copy of the current object, or of a part of it.
func Update[T scheme.Object](w *World, namespace, name, subresource string, change func(T)) (T, error) {
	w.T.Helper()
	updated, err := Of[T](w).Update(w.T.Context(), namespace, name, func(current scheme.Object) (scheme.Object, error) {
		obj := current.DeepCopyObject().(T)
		change(obj)
		return obj, nil
	}, registry.UpdateOptions{Subresource: subresource})
	if err != nil {
		var none T
		return none, err
	}
	return updated.(T), nil
}

// Get returns an object or fails the test.
func Get[T scheme.Object](w *World, namespace, name string) T {
	w.T.Helper()
	obj, err := Of[T](w).Get(w.T.Context(), namespace, name)
	if err != nil {
		w.T.Fatalf("getting %s/%s: %v", namespace, name, err)
	}
	return obj.(T)
}
