package endpointslicemirroring

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs the controller, inside a bubble, with the rights of its role.
func start(t *testing.T, p *controltest.Plane) {
	t.Helper()
	p.Allow("get list watch create update delete discovery.k8s.io/endpointslices", controltest.Events)
	p.Declare(New)
	p.Start()
}

// settle lets everything happen that happens within three seconds.
func settle() {
	time.Sleep(3 * time.Second)
	synctest.Wait()
}

func service() *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}}
}

// custom returns Endpoints with one subset, with a port and addresses; those after a slash are not ready.
func custom(addresses ...string) *corev1.Endpoints {
	subset := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Name: "sql", Port: 5432, Protocol: corev1.ProtocolTCP}}}
	for _, text := range addresses {
		if ip, notReady := strings.CutPrefix(text, "/"); notReady {
			subset.NotReadyAddresses = append(subset.NotReadyAddresses, corev1.EndpointAddress{IP: ip})
		} else {
			subset.Addresses = append(subset.Addresses, corev1.EndpointAddress{IP: text})
		}
	}
	return &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}, Subsets: []corev1.EndpointSubset{subset}}
}

// describe returns all slices as text, sorted.
func describe(p *controltest.Plane) string {
	var texts []string
	for _, slice := range controltest.List[*discoveryv1.EndpointSlice](p) {
		words := []string{string(slice.AddressType)}
		for _, endpoint := range slice.Endpoints {
			word := endpoint.Addresses[0]
			if !*endpoint.Conditions.Ready {
				word = "/" + word
			}
			words = append(words, word)
		}
		for _, port := range slice.Ports {
			words = append(words, fmt.Sprintf("%s:%d", *port.Name, *port.Port))
		}
		texts = append(texts, strings.Join(words, " "))
	}
	slices.Sort(texts)
	return strings.Join(texts, "; ")
}

func TestMirror(t *testing.T) {
	labelled := func(e *corev1.Endpoints) { e.Labels = map[string]string{discoveryv1.LabelSkipMirror: "true"} }
	for name, test := range map[string]struct {
		endpoints *corev1.Endpoints
		change    func(*corev1.Endpoints)
		service   func(*corev1.Service)
		want      string
	}{
		"addresses":     {custom("192.0.2.1", "/192.0.2.2"), nil, nil, "IPv4 192.0.2.1 /192.0.2.2 sql:5432"},
		"both families": {custom("192.0.2.1", "fd00::1"), nil, nil, "IPv4 192.0.2.1 sql:5432; IPv6 fd00::1 sql:5432"},
		"two subsets": {custom("192.0.2.1"), func(e *corev1.Endpoints) {
			e.Subsets = append(e.Subsets, corev1.EndpointSubset{
				Addresses: []corev1.EndpointAddress{{IP: "192.0.2.2"}}, Ports: []corev1.EndpointPort{{Name: "x", Port: 1}},
			})
		}, nil, "IPv4 192.0.2.1 sql:5432; IPv4 192.0.2.2 x:1"},
		"two ports": {custom("192.0.2.1"), func(e *corev1.Endpoints) {
			e.Subsets[0].Ports = append(e.Subsets[0].Ports, corev1.EndpointPort{Name: "a", Port: 1})
		}, nil, "IPv4 192.0.2.1 a:1 sql:5432"},
		"no subsets":         {custom(), func(e *corev1.Endpoints) { e.Subsets = nil }, nil, ""},
		"not to mirror":      {custom("192.0.2.1"), labelled, nil, ""},
		"a leader":           {custom("192.0.2.1"), func(e *corev1.Endpoints) { e.Annotations = map[string]string{leaderAnnotation: "{}"} }, nil, ""},
		"with a selector":    {custom("192.0.2.1"), nil, func(svc *corev1.Service) { svc.Spec.Selector = map[string]string{"a": "b"} }, ""},
		"of another name":    {custom("192.0.2.1"), nil, func(svc *corev1.Service) { svc.Name = "other" }, ""},
		"an invalid address": {custom("192.0.2.1", "x"), nil, nil, "IPv4 192.0.2.1 sql:5432"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := controltest.New(t)
				start(t, p)
				e, svc := test.endpoints.DeepCopy(), service()
				if test.change != nil {
					test.change(e)
				}
				if test.service != nil {
					test.service(svc)
				}
				p.Load(e, svc)
				settle()
				if got := describe(p); got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
				events := p.Events("InvalidIPAddress")
				if (name == "an invalid address") != slices.Equal(events, []string{"Skipped 1 invalid IP addresses when mirroring to EndpointSlices"}) {
					t.Errorf("got Events %q", events)
				}
				p.ClearCalls()
				time.Sleep(time.Hour)
				if n := len(p.Writes()); n > 0 {
					t.Errorf("got %d writes without a change", n)
				}
			})
		})
	}
}

func TestWhatAMirroredSliceHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t, service())
		start(t, p)
		e := custom("192.0.2.1")
		e.Labels = map[string]string{"team": "x"}
		e.Annotations = map[string]string{
			"note": "y", corev1.LastAppliedConfigAnnotation: "{}", corev1.EndpointsLastChangeTriggerTime: "2026-01-01T00:00:00Z",
		}
		e = controltest.Create(p, e)
		settle()
		slice := controltest.List[*discoveryv1.EndpointSlice](p)[0]
		labels := map[string]string{
			"team": "x", discoveryv1.LabelServiceName: "db", discoveryv1.LabelManagedBy: "endpointslicemirroring-controller.k8s.io",
		}
		if !maps.Equal(slice.Labels, labels) || !maps.Equal(slice.Annotations, map[string]string{"note": "y"}) ||
			!metav1.IsControlledBy(slice, e) || !strings.HasPrefix(slice.Name, "db-") {
			t.Errorf("got %+v", slice.ObjectMeta)
		}
		name := slice.Name
		controltest.Change(p, "default", "db", func(e *corev1.Endpoints) { e.Subsets[0].Addresses[0].IP, e.Labels = "192.0.2.9", nil })
		settle()
		slice = controltest.List[*discoveryv1.EndpointSlice](p)[0]
		if slice.Name != name || slice.Endpoints[0].Addresses[0] != "192.0.2.9" || slice.Labels["team"] != "" {
			t.Errorf("got %+v", slice)
		}
	})
}

// TestWhatEndsMirroring has what deletes the slices.
func TestWhatEndsMirroring(t *testing.T) {
	for name, end := range map[string]func(p *controltest.Plane){
		"no Endpoints": func(p *controltest.Plane) { p.Remove(custom()) },
		"no Service":   func(p *controltest.Plane) { p.Remove(service()) },
		"a selector": func(p *controltest.Plane) {
			controltest.Change(p, "default", "db", func(svc *corev1.Service) { svc.Spec.Selector = map[string]string{"a": "b"} })
		},
		"a label": func(p *controltest.Plane) {
			controltest.Change(p, "default", "db", func(e *corev1.Endpoints) { e.Labels = map[string]string{discoveryv1.LabelSkipMirror: "true"} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := controltest.New(t, service(), custom("192.0.2.1", "fd00::1"))
				start(t, p)
				settle()
				if n := len(controltest.List[*discoveryv1.EndpointSlice](p)); n != 2 {
					t.Fatalf("got %d slices, want 2", n)
				}
				end(p)
				settle()
				if got := describe(p); got != "" {
					t.Errorf("got %q", got)
				}
			})
		})
	}
}

func TestTooManyAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t, service())
		start(t, p)
		var addresses []string
		for n := range 1010 {
			addresses = append(addresses, fmt.Sprintf("/10.1.%d.%d", n/250, n%250+1))
		}
		addresses[1009] = addresses[1009][1:] // A ready one goes before those that are not.
		p.Load(custom(addresses...))
		settle()
		slice := controltest.List[*discoveryv1.EndpointSlice](p)[0]
		ready := slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return *e.Conditions.Ready })
		if len(slice.Endpoints) != 1000 || !ready {
			t.Errorf("got %d endpoints, a ready one among them: %t", len(slice.Endpoints), ready)
		}
		want := "A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. 10 addresses were skipped"
		if got := p.Events("TooManyAddressesToMirror"); !slices.Equal(got, []string{want}) {
			t.Errorf("got Events %q, want %q", got, want)
		}
	})
}

// TestActsOnceOnAStaleCache checks that a late cache makes no slice twice.
func TestActsOnceOnAStaleCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.NewLate(t, "EndpointSlice", 2*time.Second, service(), custom("192.0.2.1"))
		start(t, p)
		for n := range 20 {
			controltest.Change(p, "default", "db", func(e *corev1.Endpoints) { e.Labels = map[string]string{"n": fmt.Sprint(n)} })
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		all := controltest.List[*discoveryv1.EndpointSlice](p)
		if len(all) != 1 || all[0].Labels["n"] != "19" {
			t.Errorf("got %+v", all)
		}
	})
}
