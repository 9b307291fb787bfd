package allocate

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newStore(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Servers: etcdtest.New(t), Prefix: "/registry", Table: scheme.New()})
	if err != nil {
		t.Fatalf("opening the store: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return s
}

// addRange writes a ServiceCIDR in the form that etcd holds.
func addRange(t *testing.T, ips *ipAllocator, name string, change func(*networkingv1.ServiceCIDR), cidrs ...string) {
	t.Helper()
	obj := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
	if change != nil {
		change(obj)
	}
	if _, err := ips.store.Create(t.Context(), ips.ranges, obj); err != nil {
		t.Fatal(err)
	}
}

func TestRangesGiveEachAddressOnce(t *testing.T) {
	a, b := types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"}
	for _, tc := range []struct {
		cidrs  []string
		family corev1.IPFamily
		want   int
	}{
		{[]string{"10.0.0.0/30"}, corev1.IPv4Protocol, 2},
		{[]string{"10.0.0.0/31"}, corev1.IPv4Protocol, 0},
		{[]string{"10.0.0.0/32"}, corev1.IPv4Protocol, 0},
		{[]string{"10.1.0.0/28"}, corev1.IPv4Protocol, 14},
		{[]string{"10.1.0.0/27"}, corev1.IPv4Protocol, 30},
		{[]string{"10.1.0.0/27", "10.1.0.0/28"}, corev1.IPv4Protocol, 30},
		{[]string{"10.1.0.0/29", "10.2.0.0/29", "fd00::/120"}, corev1.IPv4Protocol, 12},
		{[]string{"fd00::/126", "10.2.0.0/24"}, corev1.IPv6Protocol, 3},
		{[]string{"fd00::/123"}, corev1.IPv6Protocol, 31},
		{nil, corev1.IPv6Protocol, 0},
	} {
		s := newStore(t)
		ips := newIPAllocator(s, scheme.New())
		for i, cidr := range tc.cidrs {
			addRange(t, ips, string(rune('a'+i)), nil, cidr)
		}
		seen := map[netip.Addr]bool{}
		for range tc.want {
			dry, err := ips.Free(t.Context(), tc.family)
			if err != nil || seen[dry] {
				t.Fatalf("%v would give %s: %v", tc.cidrs, dry, err)
			}
			addr, err := ips.Any(t.Context(), tc.family, a)
			if err != nil || seen[addr] || addr.Is4() != (tc.family == corev1.IPv4Protocol) {
				t.Fatalf("%v gave %s: %v", tc.cidrs, addr, err)
			}
			seen[addr] = true
		}
		if addr, err := ips.Any(t.Context(), tc.family, a); !errors.Is(err, errFull) {
			t.Errorf("%v gave one more, %s: %v", tc.cidrs, addr, err)
		}
		if addr, err := ips.Free(t.Context(), tc.family); !errors.Is(err, errFull) {
			t.Errorf("%v would give one more, %s: %v", tc.cidrs, addr, err)
		}
		for addr := range seen {
			if err := ips.Release(t.Context(), addr, b); err != nil {
				t.Fatal(err)
			}
			if err := ips.Take(t.Context(), addr, b); !errors.Is(err, errTaken) {
				t.Errorf("another's release freed %s: %v", addr, err)
			}
			if err := ips.Check(t.Context(), addr); !errors.Is(err, errTaken) {
				t.Errorf("%s seems free: %v", addr, err)
			}
			if err := ips.Release(t.Context(), addr, a); err != nil {
				t.Fatal(err)
			}
			if err := ips.Check(t.Context(), addr); err != nil {
				t.Errorf("the released %s does not seem free: %v", addr, err)
			}
			if err := ips.Take(t.Context(), addr, b); err != nil {
				t.Errorf("the released %s is not given: %v", addr, err)
			}
			break
		}
	}
}

func TestAddressesOutsideAreNotGiven(t *testing.T) {
	ips := newIPAllocator(newStore(t), scheme.New())
	addRange(t, ips, "a", nil, "10.9.0.0/24", "fd00::/112")
	for _, addr := range []string{"10.9.0.0", "10.9.0.255", "10.8.0.1", "fd00::", "fd01::1"} {
		if err := ips.Take(t.Context(), netip.MustParseAddr(addr), types.NamespacedName{}); !errors.Is(err, errOutside) {
			t.Errorf("%s was given: %v", addr, err)
		}
	}
	for _, addr := range []string{"10.9.0.1", "10.9.0.254", "fd00::1", "fd00::ffff"} {
		if err := ips.Take(t.Context(), netip.MustParseAddr(addr), types.NamespacedName{}); err != nil {
			t.Errorf("%s was not given: %v", addr, err)
		}
	}
}

func TestRangesThatAreNotReadyGiveNothing(t *testing.T) {
	ips := newIPAllocator(newStore(t), scheme.New())
	condition := func(status metav1.ConditionStatus) func(*networkingv1.ServiceCIDR) {
		return func(c *networkingv1.ServiceCIDR) {
			c.Status.Conditions = []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: status}}
		}
	}
	addRange(t, ips, "not-ready", condition(metav1.ConditionFalse), "10.1.0.0/24")
	addRange(t, ips, "deleting", func(c *networkingv1.ServiceCIDR) {
		c.DeletionTimestamp, c.Finalizers = new(metav1.Now()), []string{"f"}
	}, "10.2.0.0/24")
	addRange(t, ips, "other", condition(metav1.ConditionTrue), "10.4.0.0/24")
	addRange(t, ips, DefaultRange, condition(metav1.ConditionUnknown), "10.3.0.0/30")
	ranges, err := ips.Ranges(t.Context(), corev1.IPv4Protocol)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range ranges {
		names = append(names, r.prefix.String())
	}
	if want := []string{"10.3.0.0/30", "10.4.0.0/24"}; !slices.Equal(names, want) {
		t.Errorf("the ranges are %v, want %v", names, want)
	}
	for _, addr := range []string{"10.1.0.1", "10.2.0.1"} {
		if err := ips.Take(t.Context(), netip.MustParseAddr(addr), types.NamespacedName{}); !errors.Is(err, errOutside) {
			t.Errorf("%s was given: %v", addr, err)
		}
	}
}

func TestConfiguredRanges(t *testing.T) {
	for _, prefix := range []string{"10.0.0.0/31", "fd00::/127", "fd00::/63"} {
		if NewRange(netip.MustParsePrefix(prefix)).Check() == nil {
			t.Errorf("a cluster can start with %s", prefix)
		}
	}
	for prefix, first := range map[string]string{"10.0.0.0/30": "10.0.0.1", "fd00::/64": "fd00::1", "10.96.0.0/12": "10.96.0.1"} {
		r := NewRange(netip.MustParsePrefix(prefix))
		if r.Check() != nil || r.First().String() != first {
			t.Errorf("%s: %v, first %s", prefix, r.Check(), r.First())
		}
	}
}

func TestRepairLeavesOthersAddresses(t *testing.T) {
	ips := newIPAllocator(newStore(t), scheme.New())
	old := metav1.NewTime(time.Now().Add(-time.Hour))
	for name, labels := range map[string]map[string]string{
		"10.0.0.1": nil, "10.0.0.2": {networkingv1.LabelManagedBy: "someone"}, "10.0.0.3": {networkingv1.LabelManagedBy: managedBy},
	} {
		obj := &networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, CreationTimestamp: old},
			Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "n", Name: "gone"}},
		}
		if _, err := ips.store.Create(t.Context(), ips.addresses, obj); err != nil {
			t.Fatal(err)
		}
	}
	conflicts := 0
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.0.0.1", "fd00::1"}}}
	if err := ips.Repair(t.Context(), []*corev1.Service{service}, func(netip.Addr, types.NamespacedName, types.NamespacedName) { conflicts++ }); err != nil {
		t.Fatal(err)
	}
	used, err := ips.inUse(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[netip.Addr]bool{netip.MustParseAddr("10.0.0.1"): true, netip.MustParseAddr("10.0.0.2"): true, netip.MustParseAddr("fd00::1"): true}
	if len(used) != len(want) || conflicts != 1 {
		t.Errorf("after repairing, %v are in use, want %v; %d conflicts", used, want, conflicts)
	}
	for addr := range want {
		if !used[addr] {
			t.Errorf("%s was freed", addr)
		}
	}
}

// TestRepairReportsEachConflict checks that the order of the services does not matter, nor whether the
// address is recorded already.
func TestRepairReportsEachConflict(t *testing.T) {
	addr := netip.MustParseAddr("10.0.0.1")
	owner, other, third := types.NamespacedName{Name: "owner"}, types.NamespacedName{Name: "other"}, types.NamespacedName{Name: "third"}
	for name, tc := range map[string]struct {
		recorded bool
		services []types.NamespacedName
		want     []types.NamespacedName
	}{
		"the owner alone":            {true, []types.NamespacedName{owner}, nil},
		"the owner first":            {true, []types.NamespacedName{owner, other}, []types.NamespacedName{other}},
		"the owner last":             {true, []types.NamespacedName{other, owner}, []types.NamespacedName{other}},
		"the owner between":          {true, []types.NamespacedName{other, owner, third}, []types.NamespacedName{other, third}},
		"no owner":                   {true, []types.NamespacedName{other, third}, []types.NamespacedName{other, third}},
		"no record, the first is it": {false, []types.NamespacedName{owner, other, third}, []types.NamespacedName{other, third}},
	} {
		t.Run(name, func(t *testing.T) {
			ips := newIPAllocator(newStore(t), scheme.New())
			if tc.recorded {
				if err := ips.create(t.Context(), addr, owner); err != nil {
					t.Fatal(err)
				}
			}
			var services []*corev1.Service
			for _, service := range tc.services {
				services = append(services, &corev1.Service{
					ObjectMeta: metav1.ObjectMeta{Name: service.Name}, Spec: corev1.ServiceSpec{ClusterIPs: []string{addr.String()}},
				})
			}
			var got []types.NamespacedName
			err := ips.Repair(t.Context(), services, func(at netip.Addr, service, holder types.NamespacedName) {
				if at != addr || holder != owner {
					t.Errorf("%s of %s is reported as %s's, want %s", at, service, holder, owner)
				}
				got = append(got, service)
			})
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("the conflicts are with %v, want %v: %v", got, tc.want, err)
			}
		})
	}
}

func TestPorts(t *testing.T) {
	s := newStore(t)
	ports, err := NewPorts(s, PortRange{First: 30000, Last: 30019})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int32]bool{}
	for range 20 {
		port, err := ports.Any(t.Context())
		if err != nil || seen[port] || ports.Check(port) != nil {
			t.Fatalf("got %d: %v", port, err)
		}
		seen[port] = true
	}
	if _, err := ports.Any(t.Context()); !errors.Is(err, errFull) {
		t.Errorf("one more: %v", err)
	}
	if err := ports.Take(t.Context(), 30007); !errors.Is(err, errPortTaken) {
		t.Errorf("a taken port: %v", err)
	}
	if err := ports.Release(t.Context(), 30007, 80); err != nil {
		t.Fatal(err)
	}
	if err := ports.Take(t.Context(), 30007); err != nil {
		t.Errorf("a released port: %v", err)
	}
	other, err := NewPorts(s, PortRange{First: 31000, Last: 31999})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Any(t.Context()); err == nil {
		t.Error("another range reads the bitmap of the first")
	}
	for _, r := range []PortRange{{First: 0, Last: 5}, {First: 5, Last: 4}, {First: 1, Last: 70000}} {
		if _, err := NewPorts(s, r); err == nil {
			t.Errorf("%s is a range of ports", r)
		}
	}
}
