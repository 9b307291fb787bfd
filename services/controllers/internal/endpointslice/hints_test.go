package endpointslice

import (
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// hints returns the hints of an endpoint as text.
func hints(e discoveryv1.Endpoint) string {
	if e.Hints == nil {
		return ""
	}
	var words []string
	for _, zone := range e.Hints.ForZones {
		words = append(words, "zone "+zone.Name)
	}
	for _, node := range e.Hints.ForNodes {
		words = append(words, "node "+node.Name)
	}
	return strings.Join(words, ", ")
}

func TestTrafficDistribution(t *testing.T) {
	for distribution, want := range map[string]string{
		"PreferClose": "zone b", "PreferSameZone": "zone b", "PreferSameNode": "zone b, node n2", "Other": "", "": "",
	} {
		t.Run(distribution, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t)
				p.Load(pod(1))
				settle()
				controltest.Create(p, service())
				settle()
				controltest.Change(p, "default", "web", func(svc *corev1.Service) { svc.Spec.TrafficDistribution = optional(distribution) })
				settle()
				if got := hints(only(t, p).Endpoints[0]); got != want {
					t.Errorf("got the hints %q, want %q", got, want)
				}
				controltest.Change(p, "default", "web", func(svc *corev1.Service) { svc.Spec.TrafficDistribution = nil })
				settle()
				if got := hints(only(t, p).Endpoints[0]); got != "" {
					t.Errorf("the hints %q remain", got)
				}
			})
		})
	}
}

func TestHintsByTopology(t *testing.T) {
	for _, annotation := range []string{corev1.AnnotationTopologyMode, corev1.DeprecatedAnnotationTopologyAwareHints} {
		t.Run(annotation, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t)
				for n := range 6 {
					p.Load(pod(n))
				}
				settle()
				controltest.Create(p, service(func(svc *corev1.Service) { svc.Annotations = map[string]string{annotation: "Auto"} }))
				settle()
				zones := map[string]int{}
				for _, endpoint := range only(t, p).Endpoints {
					zones[hints(endpoint)]++
				}
				if zones["zone a"] != 3 || zones["zone b"] != 3 {
					t.Errorf("got the hints %v", zones)
				}
				if got := p.Events("TopologyAwareHintsEnabled"); len(got) != 1 || got[0] != "Topology Aware Hints has been enabled, addressType: IPv4" {
					t.Errorf("got Events %q", got)
				}
				// A third zone has too few endpoints: the Service is reconciled without a change of its own.
				p.Load(node("n3", "c"))
				settle()
				zones = map[string]int{}
				for _, endpoint := range only(t, p).Endpoints {
					zones[hints(endpoint)]++
				}
				if zones["zone c"] != 2 {
					t.Errorf("got the hints %v after a zone came", zones)
				}
				controltest.Change(p, "default", "web", func(svc *corev1.Service) { svc.Annotations = nil })
				settle()
				if got := p.Events("TopologyAwareHintsDisabled"); len(got) != 1 || got[0] != "Topology Aware Hints has been disabled, addressType: IPv4" {
					t.Errorf("got Events %q", got)
				}
				if got := hints(only(t, p).Endpoints[0]); got != "" {
					t.Errorf("the hints %q remain", got)
				}
			})
		})
	}
}

func TestTooFewEndpointsForHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.Load(pod(1))
		settle()
		controltest.Create(p, service(func(svc *corev1.Service) { svc.Annotations = map[string]string{corev1.AnnotationTopologyMode: "auto"} }))
		settle()
		want := "Insufficient number of endpoints (1 endpoints, 2 zones), addressType: IPv4"
		if got := p.Events("TopologyAwareHintsDisabled"); len(got) == 0 || got[0] != want {
			t.Errorf("got Events %q, want %q", got, want)
		}
	})
}
