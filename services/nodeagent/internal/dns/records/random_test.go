package records

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// TestRandomChanges checks that a zone after many changes answers as one that got the last state of
// each object alone.
func TestRandomChanges(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		pick := func(texts ...string) string { return texts[random.IntN(len(texts))] }
		changed := newZone(t)
		services, endpoints := map[string]*corev1.Service{}, map[string]*discoveryv1.EndpointSlice{}
		for range 200 {
			name := pick("x", "y")
			switch random.IntN(5) {
			case 0:
				delete(services, name)
				changed.DeleteService("a", name)
			case 1:
				delete(endpoints, name)
				changed.DeleteSlice("a", name)
			case 2:
				s := serviceNamed(name, pick("None", "10.0.0.1", "10.0.0.2"))
				services[name] = s
				changed.SetService(s)
			default:
				s := sliceOf(pick("x", "y", ""), name, []int32{80}, pick("10.0.0.1", "10.0.0.2/h", "10.0.0.3/i"), pick("10.0.0.1/h", "10.0.0.4"))
				endpoints[name] = s
				changed.SetSlice(s)
			}
		}
		fresh := newZone(t)
		for _, name := range slices.Sorted(maps.Keys(services)) {
			fresh.SetService(services[name])
		}
		for _, name := range slices.Sorted(maps.Keys(endpoints)) {
			fresh.SetSlice(endpoints[name])
		}
		for _, name := range []string{"x.a", "y.a", "h.x.a", "i.x.a", "10-0-0-1.y.a", "h.y.a", "_p80._tcp.x.a", "a"} {
			for _, kind := range []string{"A", "SRV"} {
				what := fmt.Sprintf("seed %d: %s %s", seed, name, kind)
				expect(t, what, lookup(t, changed, name+".svc.cluster.local", kind), lookup(t, fresh, name+".svc.cluster.local", kind))
			}
		}
		for i := range 5 {
			addr := fmt.Sprintf("10.0.0.%d", i)
			got, want := sorted(reverse(t, changed, addr)), sorted(reverse(t, fresh, addr))
			expect(t, fmt.Sprintf("seed %d: %s", seed, addr), got, want)
		}
		if len(changed.groups) != len(fresh.groups) || len(changed.reverse) != len(fresh.reverse) || len(changed.owners) > len(endpoints) {
			t.Errorf("seed %d: knows %v instead of %v", seed, changed.groups, fresh.groups)
		}
	}
}

// sorted returns the characters of a text in order: names of an address come in any.
func sorted(text string) string {
	characters := []byte(text)
	slices.Sort(characters)
	return string(characters)
}

// TestConcurrent checks with the race detector that names can be looked up while they change.
func TestConcurrent(t *testing.T) {
	z := newZone(t)
	var running sync.WaitGroup
	for _, name := range []string{"x", "y"} {
		running.Go(func() {
			for i := range 200 {
				z.SetService(serviceNamed(name, "None"))
				z.SetSlice(sliceOf(name, name, []int32{80}, fmt.Sprintf("10.0.0.%d/h", i), "10.0.1.1/i"))
				z.DeleteSlice("a", name)
				z.DeleteService("a", name)
				z.SetNamespace("a")
				z.DeleteNamespace("a")
			}
		})
	}
	name := mustName(t, "x.a.svc.cluster.local")
	pointer := mustName(t, "1.1.0.10.in-addr.arpa")
	running.Go(func() {
		for range 2000 {
			answer, _ := z.Lookup(name, 1, nil)
			for _, addr := range answer.Addresses {
				if !addr.IsValid() || addr == netip.IPv4Unspecified() {
					t.Errorf("got %v", addr)
				}
			}
			z.Reverse(pointer)
		}
	})
	running.Wait()
	if len(z.groups)+len(z.reverse) > 0 {
		t.Errorf("still knows %v, %v", z.groups, z.reverse)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
