package allocate

import (
	"errors"
	"net/netip"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/store"
	"github.com/garboard/garboard/services/apiserver/internal/store/etcdtest"
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

func TestRanges(t *testing.T) {
	s := newStore(t)
	a, b := types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"}
	for prefix, want := range map[string]int{"10.0.0.0/30": 2, "fd00::/126": 3, "10.1.0.0/28": 14} {
		ips, err := NewIPs(s, netip.MustParsePrefix(prefix))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[netip.Addr]bool{}
		for range want {
			addr, err := ips.Any(t.Context(), a)
			if err != nil || seen[addr] || !ips.Range().Contains(addr) {
				t.Fatalf("%s gave %s: %v", prefix, addr, err)
			}
			seen[addr] = true
		}
		if _, err := ips.Any(t.Context(), a); !errors.Is(err, ErrFull) {
			t.Errorf("%s gave one more: %v", prefix, err)
		}
		if seen[netip.MustParsePrefix(prefix).Addr()] || !seen[ips.First()] {
			t.Errorf("%s gave %v", prefix, seen)
		}
		if err := ips.Release(t.Context(), ips.First(), b); err != nil {
			t.Fatal(err)
		}
		if err := ips.Take(t.Context(), ips.First(), b); !errors.Is(err, ErrTaken) {
			t.Errorf("another's release freed the address: %v", err)
		}
		if err := ips.Release(t.Context(), ips.First(), a); err != nil {
			t.Fatal(err)
		}
		if err := ips.Take(t.Context(), ips.First(), b); err != nil {
			t.Errorf("a released address is not given: %v", err)
		}
	}
	for _, prefix := range []string{"10.0.0.0/31", "fd00::/127"} {
		if _, err := NewIPs(s, netip.MustParsePrefix(prefix)); err == nil {
			t.Errorf("%s is a range", prefix)
		}
	}
	ips, err := NewIPs(s, netip.MustParsePrefix("10.9.0.0/24"))
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{"10.9.0.0", "10.9.0.255", "10.8.0.1", "fd00::1"} {
		if err := ips.Take(t.Context(), netip.MustParseAddr(addr), a); err == nil || errors.Is(err, ErrTaken) {
			t.Errorf("%s was given: %v", addr, err)
		}
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
	if _, err := ports.Any(t.Context()); !errors.Is(err, ErrFull) {
		t.Errorf("one more: %v", err)
	}
	if err := ports.Take(t.Context(), 30007); !errors.Is(err, ErrPortTaken) {
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
