package kubernetesservice

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// members are the registrations, which do not expire by themselves.
type members struct {
	mu     sync.Mutex
	living map[netip.Addr]time.Duration
	fault  error
}

func (m *members) KeepMember(_ context.Context, address netip.Addr, life time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault == nil {
		m.living[address] = life
	}
	return m.fault
}

func (m *members) ForgetMember(_ context.Context, address netip.Addr) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault == nil {
		delete(m.living, address)
	}
	return m.fault
}

func (m *members) Members(context.Context) ([]netip.Addr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Keys(m.living), netip.Addr.Compare), m.fault
}

// world is a registry on its own etcd, with the registrations.
type world struct {
	*registry.Registry
	*members
	t     *testing.T
	table *scheme.Table
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := registrytest.New(t)
	return &world{Registry: w.Registry, members: &members{living: map[netip.Addr]time.Duration{}}, t: t, table: w.Table}
}

// member returns a member with an address, which may be empty.
func (w *world) member(address string) *Member {
	var at netip.AddrPort
	if address != "" {
		at = netip.MustParseAddrPort(address)
	}
	return New(Config{
		Table: w.table, Store: w.members, Registry: w.Registry, Address: at, Hostname: strings.Trim("host-"+strings.ReplaceAll(address, ":", "-"), "-[]"),
		Logger: slog.New(slog.NewTextHandler(w.t.Output(), nil)),
	})
}

// read returns an object of the kubernetes Service; nil if there is none.
func read[T scheme.Object](w *world) (found T) {
	w.t.Helper()
	obj, err := w.Resource(scheme.For[T](w.table)).Get(w.t.Context(), "default", "kubernetes")
	if apierrors.IsNotFound(err) {
		return found
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return obj.(T)
}

// published formats the endpoints in both forms.
func (w *world) published() string {
	w.t.Helper()
	var parts []string
	if endpoints := read[*corev1.Endpoints](w); endpoints != nil {
		for _, subset := range endpoints.Subsets {
			for _, address := range subset.Addresses {
				parts = append(parts, fmt.Sprintf("%s:%d", address.IP, subset.Ports[0].Port))
			}
		}
	}
	if slice := read[*discoveryv1.EndpointSlice](w); slice != nil {
		parts = append(parts, string(slice.AddressType))
		for _, endpoint := range slice.Endpoints {
			parts = append(parts, fmt.Sprintf("%s:%d", endpoint.Addresses[0], *slice.Ports[0].Port))
		}
	}
	return strings.Join(parts, " ")
}

// TestMembersComeAndGo follows the endpoints through the life of two apiservers.
func TestMembersComeAndGo(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	a, b := w.member("10.0.0.1:6443"), w.member("10.0.0.2:6443")
	want := func(what, want string) {
		t.Helper()
		if got := w.published(); got != want {
			t.Errorf("%s: the endpoints are %q, want %q", what, got, want)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	want("before", "")
	do(a.Reconcile(ctx))
	want("with one", "10.0.0.1:6443 IPv4 10.0.0.1:6443")
	if w.living[a.Address.Addr()] != life {
		t.Errorf("it is registered for %v", w.living[a.Address.Addr()])
	}
	version := read[*corev1.Endpoints](w).ResourceVersion
	do(a.Reconcile(ctx))
	if read[*corev1.Endpoints](w).ResourceVersion != version {
		t.Error("endpoints that did not change were written")
	}
	do(b.Reconcile(ctx))
	want("with two", "10.0.0.1:6443 10.0.0.2:6443 IPv4 10.0.0.1:6443 10.0.0.2:6443")
	if endpoints := read[*corev1.Endpoints](w); endpoints.Labels[skipMirror] != "true" || endpoints.Subsets[0].Ports[0].Name != "https" {
		t.Errorf("the endpoints are %+v", endpoints)
	}
	if slice := read[*discoveryv1.EndpointSlice](w); slice.Labels[discoveryv1.LabelServiceName] != "kubernetes" || !*slice.Endpoints[0].Conditions.Ready {
		t.Errorf("the slice is %+v", slice)
	}
	a.Leave(ctx)
	want("after one has left", "10.0.0.2:6443 IPv4 10.0.0.2:6443")
	do(a.Reconcile(ctx))
	want("after it tried to come back", "10.0.0.2:6443 IPv4 10.0.0.2:6443")
	// The last one leaves its endpoints alone, and an apiserver that pods cannot reach removes them.
	b.Leave(ctx)
	want("after both have left", "10.0.0.2:6443 IPv4 10.0.0.2:6443")
	alone := w.member("")
	alone.Leave(ctx)
	do(alone.Reconcile(ctx))
	want("without any", "")
	do(alone.Reconcile(ctx))
	// It does not touch those of others. One of the other family replaces the slice.
	do(w.member("10.0.0.3:6443").Reconcile(ctx))
	do(alone.Reconcile(ctx))
	want("with another", "10.0.0.3:6443 IPv4 10.0.0.3:6443")
	do(w.member("[fd00::1]:6443").Reconcile(ctx))
	want("with one of another family", "10.0.0.3:6443 fd00::1:6443 IPv6 fd00::1:6443")
}

// TestStoreFails: without the registrations nothing is written, and leaving does not hang.
func TestStoreFails(t *testing.T) {
	w := newWorld(t)
	a := w.member("10.0.0.1:6443")
	if err := a.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := w.published()
	w.fault = errors.New("etcd is away")
	for name, m := range map[string]*Member{"a member": a, "another": w.member("10.0.0.2:6443"), "one without an address": w.member("")} {
		if err := m.Reconcile(t.Context()); !errors.Is(err, w.fault) {
			t.Errorf("%s: %v", name, err)
		}
	}
	a.Leave(t.Context())
	w.fault = nil
	if got := w.published(); got != before {
		t.Errorf("the endpoints became %q", got)
	}
}

// TestIdentity renews the Lease of an apiserver and sweeps those of others that are long gone.
func TestIdentity(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	leases := w.Resource(scheme.For[*coordinationv1.Lease](w.table))
	m := w.member("10.0.0.1:6443")
	get := func() *coordinationv1.Lease {
		t.Helper()
		obj, err := leases.Get(ctx, "kube-system", m.identity.name)
		if err != nil {
			t.Fatal(err)
		}
		return obj.(*coordinationv1.Lease)
	}
	for range 2 {
		if err := m.renew(ctx); err != nil {
			t.Fatal(err)
		}
	}
	lease := get()
	if *lease.Spec.HolderIdentity != m.identity.holder || *lease.Spec.LeaseDurationSeconds != identityLife || lease.Labels[identityLabel] != writer ||
		lease.Labels[corev1.LabelHostname] != m.Hostname || time.Since(lease.Spec.RenewTime.Time) > time.Minute {
		t.Errorf("the Lease is %+v", lease)
	}
	// Another process on the same host has the Lease's name, and another holder.
	if again := w.member("10.0.0.1:6443"); again.identity.name != m.identity.name || again.identity.holder == m.identity.holder {
		t.Errorf("the identities are %+v and %+v", m.identity, again.identity)
	}
	// Kubernetes' own name for the same host, so that its apiservers and ours do not collide.
	if got := LeaseName("node-1"); !strings.HasPrefix(got, "apiserver-") || len(got) != len("apiserver-")+26 || got == LeaseName("node-2") {
		t.Errorf("the name is %s", got)
	}
	old, seconds := metav1.NewMicroTime(time.Now().Add(-2*time.Hour)), int32(3600)
	for name, spec := range map[string]coordinationv1.LeaseSpec{
		"old": {RenewTime: &old, LeaseDurationSeconds: &seconds}, "empty": {}, "foreign": {RenewTime: &old, LeaseDurationSeconds: &seconds},
	} {
		labels := map[string]string{identityLabel: writer}
		if name == "foreign" {
			labels = map[string]string{identityLabel: "other-apiserver"}
		}
		obj := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: labels}, Spec: spec}
		if _, err := leases.Create(ctx, "kube-system", obj, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.sweep(ctx); err != nil {
		t.Fatal(err)
	}
	for name, stays := range map[string]bool{"old": false, "empty": false, "foreign": true, m.identity.name: true} {
		if _, err := leases.Get(ctx, "kube-system", name); (err == nil) != stays {
			t.Errorf("the Lease %s: %v", name, err)
		}
	}
}
