package endpointslice

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"pgregory.net/rapid"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
	"github.com/garboard/garboard/services/controllers/internal/serviceendpoints"
)

func TestManyPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		for n := range 250 {
			p.Load(pod(n))
		}
		settle()
		controltest.Create(p, service())
		settle()
		if got := sizes(p); !slices.Equal(got, []int{50, 100, 100}) {
			t.Fatalf("got %v endpoints", got)
		}
		writes(p)
		// What is left fits into the slice that has room: it is the only one that is written.
		for n := 250; n < 270; n++ {
			p.Load(pod(n))
		}
		settle()
		if got := sizes(p); !slices.Equal(got, []int{70, 100, 100}) {
			t.Errorf("got %v endpoints", got)
		}
		// Slices that lose some are filled before others.
		for n := range 270 {
			p.Remove(pod(n))
		}
		settle()
		if got := sizes(p); !slices.Equal(got, []int{0}) {
			t.Errorf("got %v endpoints", got)
		}
	})
}

// TestPack has what is written for endpoints that are wanted and slices that exist.
func TestPack(t *testing.T) {
	for name, test := range map[string]struct {
		existing               []int
		wanted                 [2]int // from, to
		create, update, delete int
		sizes                  []int
	}{
		"nothing":                    {nil, [2]int{0, 0}, 1, 0, 0, []int{0}},
		"the first":                  {nil, [2]int{0, 1}, 1, 0, 0, []int{1}},
		"as many as a slice has":     {nil, [2]int{0, 100}, 1, 0, 0, []int{100}},
		"one more":                   {nil, [2]int{0, 101}, 2, 0, 0, []int{1, 100}},
		"the same":                   {[]int{100, 50}, [2]int{0, 150}, 0, 0, 0, []int{50, 100}},
		"room in one":                {[]int{90, 50}, [2]int{0, 145}, 0, 1, 0, []int{50, 95}},
		"the fullest with room":      {[]int{90, 50}, [2]int{0, 145 + 5}, 0, 1, 0, []int{50, 100}},
		"room in none":               {[]int{90, 80}, [2]int{0, 195}, 1, 0, 0, []int{25, 80, 90}},
		"a slice that changes first": {[]int{90, 50}, [2]int{10, 150}, 0, 1, 0, []int{50, 90}},
		"fewer":                      {[]int{100, 50}, [2]int{0, 120}, 0, 1, 0, []int{20, 100}},
		"none of one":                {[]int{100, 50}, [2]int{100, 150}, 0, 0, 1, []int{50}},
		"all others":                 {[]int{100, 50}, [2]int{150, 210}, 0, 1, 1, []int{60}},
	} {
		t.Run(name, func(t *testing.T) {
			svc := service()
			svc.UID = "s"
			p := pack(svc, discoveryv1.AddressTypeIPv4, groups(test.wanted[0], test.wanted[1]), slicesWith(svc, test.existing))
			p.Reuse(func(slice *discoveryv1.EndpointSlice) bool { return ownedBy(slice, svc) })
			if len(p.Create) != test.create || len(p.Update) != test.update || len(p.Delete) != test.delete {
				t.Errorf("got %d creations, %d updates and %d deletions, want %d, %d and %d",
					len(p.Create), len(p.Update), len(p.Delete), test.create, test.update, test.delete)
			}
			if got := result(slicesWith(svc, test.existing), p); !slices.Equal(got.sizes, test.sizes) {
				t.Errorf("got slices of %v, want %v", got.sizes, test.sizes)
			}
		})
	}
}

// TestPackKeepsEverything tries whatever slices and wishes: each endpoint is in one slice.
func TestPackKeepsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		svc := service()
		svc.UID = "s"
		existing := rapid.SliceOfN(rapid.IntRange(0, 130), 0, 5).Draw(t, "existing")
		from := rapid.IntRange(0, 300).Draw(t, "from")
		to := from + rapid.IntRange(0, 300).Draw(t, "more")
		p := pack(svc, discoveryv1.AddressTypeIPv4, groups(from, to), slicesWith(svc, existing))
		p.Reuse(func(slice *discoveryv1.EndpointSlice) bool { return ownedBy(slice, svc) })
		got := result(slicesWith(svc, existing), p)
		if len(got.addresses) != to-from {
			t.Errorf("got %d endpoints, want %d", len(got.addresses), to-from)
		}
		slices.Sort(got.addresses)
		if len(slices.Compact(got.addresses)) != to-from {
			t.Error("an endpoint is in two slices")
		}
	})
}

type packed struct {
	sizes     []int
	addresses []string
}

// result carries out a plan.
func result(existing []*discoveryv1.EndpointSlice, p packing) packed {
	byName := map[string]*discoveryv1.EndpointSlice{}
	for _, slice := range append(existing, p.Update...) {
		byName[slice.Name] = slice
	}
	for i, slice := range p.Create {
		byName[fmt.Sprint("new ", i)] = slice
	}
	for _, slice := range p.Delete {
		delete(byName, slice.Name)
	}
	var got packed
	for _, slice := range byName {
		got.sizes = append(got.sizes, len(slice.Endpoints))
		for _, endpoint := range slice.Endpoints {
			got.addresses = append(got.addresses, endpoint.Addresses...)
		}
	}
	slices.Sort(got.sizes)
	return got
}

// groups returns the endpoints of pods with some numbers; no group if there are none.
func groups(from, to int) map[string]*group {
	g := &group{endpoints: map[serviceendpoints.Identity]*discoveryv1.Endpoint{}, ports: endpointPorts(service(), pod(0))}
	for n := from; n < to; n++ {
		endpoint := newEndpoint(service(), pod(n), "", discoveryv1.AddressTypeIPv4)
		id := serviceendpoints.Identify(endpoint)
		g.endpoints[id], g.order = endpoint, append(g.order, id)
	}
	if from == to {
		return nil
	}
	return map[string]*group{serviceendpoints.PortKey(g.ports): g}
}

// slicesWith returns slices with so many endpoints, of pods that are numbered through.
func slicesWith(svc *corev1.Service, sizes []int) []*discoveryv1.EndpointSlice {
	var all []*discoveryv1.EndpointSlice
	n := 0
	for i, size := range sizes {
		slice := newSlice(svc, discoveryv1.AddressTypeIPv4, endpointPorts(svc, pod(0)))
		slice.Name = fmt.Sprintf("web-%d", i)
		for range size {
			slice.Endpoints = append(slice.Endpoints, *newEndpoint(svc, pod(n), "", discoveryv1.AddressTypeIPv4))
			n++
		}
		all = append(all, slice)
	}
	return all
}
