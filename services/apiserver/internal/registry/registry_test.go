package registry

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/strategy"
	"github.com/garboard/garboard/services/apiserver/internal/registry/dualstack"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a registry on its own etcd.
type world struct {
	*Registry
	t     testing.TB
	table *scheme.Table
	etcd  *etcdtest.Server
}

// newWorld starts etcd, the feeds and a registry, with the system namespaces and the default
// service account in "default".
func newWorld(t testing.TB, change ...func(*Config)) *world {
	t.Helper()
	return newWorldOn(t, etcdtest.Start(t), feed.Config{}, change...)
}

// newWorldOn is newWorld on a running etcd, with the given feed configuration.
func newWorldOn(t testing.TB, etcd *etcdtest.Server, feedConfig feed.Config, change ...func(*Config)) *world {
	t.Helper()
	table := scheme.New()
	s, err := store.Open(t.Context(), store.Config{Servers: etcd.Endpoints(), Prefix: "/registry", Table: table})
	if err != nil {
		t.Fatalf("opening the store: %v", err)
	}
	feedConfig.Store, feedConfig.Table, feedConfig.Patience = s, table, cmp.Or(feedConfig.Patience, patience)
	feeds := feed.New(feedConfig)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- feeds.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the feeds ended: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	if err := feeds.Ready(t.Context()); err != nil {
		t.Fatalf("waiting for the feeds: %v", err)
	}
	config := Config{Store: s, Feeds: feeds}
	for _, c := range change {
		c(&config)
	}
	config.Catalog = catalogOf(t, table, config.ServiceCIDRs...)
	r, err := New(config)
	if err != nil {
		t.Fatalf("making the registry: %v", err)
	}
	if err := r.Bootstrap(t.Context()); err != nil {
		t.Fatalf("bootstrapping: %v", err)
	}
	w := &world{Registry: r, t: t, table: table, etcd: etcd}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := resource[*corev1.ServiceAccount](w).Create(t.Context(), "default", account, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating the default service account: %v", err)
	}
	return w
}

// catalogOf returns the catalog of the built-in kinds for some ranges of service addresses.
func catalogOf(t testing.TB, table *scheme.Table, ranges ...netip.Prefix) *kinds.Catalog {
	t.Helper()
	var families []corev1.IPFamily
	for _, prefix := range ranges {
		families = append(families, dualstack.FamilyOf(prefix.Addr().String()))
	}
	catalog, err := strategy.Catalog(table, families...)
	if err != nil {
		t.Fatal(err)
	}
	return catalog
}

func resource[T scheme.Object](w *world) *Resource { return w.Resource(scheme.For[T](w.table)) }

// create creates obj or fails the test.
func create[T scheme.Object](w *world, namespace string, obj T) T {
	w.t.Helper()
	created, err := resource[T](w).Create(w.t.Context(), namespace, obj, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatalf("creating %T %s: %v", obj, obj.GetName(), err)
	}
	return created.(T)
}

// update changes a copy of the current object.
func update[T scheme.Object](w *world, namespace, name, subresource string, change func(T)) (T, error) {
	w.t.Helper()
	updated, err := resource[T](w).Update(w.t.Context(), namespace, name, func(current scheme.Object) (scheme.Object, error) {
		obj := current.DeepCopyObject().(T)
		change(obj)
		return obj, nil
	}, UpdateOptions{Subresource: subresource})
	if err != nil {
		var none T
		return none, err
	}
	return updated.(T), nil
}

func get[T scheme.Object](w *world, namespace, name string) T {
	w.t.Helper()
	obj, err := resource[T](w).Get(w.t.Context(), namespace, name)
	if err != nil {
		w.t.Fatalf("getting %s/%s: %v", namespace, name, err)
	}
	return obj.(T)
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx:1.14.2"}}},
	}
}
