package endpointslice

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestASliceOfAService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.Load(pod(1))
		settle()
		svc := controltest.Create(p, service())
		settle()
		slice := only(t, p)
		want := map[string]string{
			"team": "x", discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
		}
		if !maps.Equal(slice.Labels, want) || !strings.HasPrefix(slice.Name, "web-") || !metav1.IsControlledBy(slice, svc) {
			t.Errorf("got %+v", slice.ObjectMeta)
		}
		if at := slice.Annotations[corev1.EndpointsLastChangeTriggerTime]; at != svc.CreationTimestamp.UTC().Format(time.RFC3339Nano) {
			t.Errorf("got the last change at %q, want the Service's creation at %s", at, svc.CreationTimestamp.UTC())
		}
		port := slice.Ports[0]
		if len(slice.Ports) != 1 || *port.Name != "http" || *port.Port != 8080 || *port.Protocol != corev1.ProtocolTCP {
			t.Errorf("got ports %+v", slice.Ports)
		}
		endpoint := slice.Endpoints[0]
		if len(slice.Endpoints) != 1 || endpoint.Addresses[0] != "10.1.0.2" || *endpoint.NodeName != "n2" || *endpoint.Zone != "b" ||
			endpoint.TargetRef.Name != "web-1" || endpoint.TargetRef.UID != "1" || endpoint.Hints != nil {
			t.Errorf("got endpoints %+v", slice.Endpoints)
		}
		writes(p)
		time.Sleep(time.Hour)
		if n := writes(p); n != 0 {
			t.Errorf("got %d writes without a change", n)
		}
	})
}

// TestStatesOfPods has what each state of a pod makes of its endpoint: its conditions, or none.
func TestStatesOfPods(t *testing.T) {
	publish := func(svc *corev1.Service) { svc.Spec.PublishNotReadyAddresses = true }
	for name, test := range map[string]struct {
		pod     func(*corev1.Pod)
		service func(*corev1.Service)
		want    string
	}{
		"ready":                   {nil, nil, "ready serving"},
		"not ready":               {unready, nil, ""},
		"not ready but published": {unready, publish, "ready"},
		"terminating":             {terminating, nil, "serving terminating"},
		"terminating, published":  {terminating, publish, "ready serving terminating"},
		"terminating, not ready":  {func(p *corev1.Pod) { terminating(p); unready(p) }, nil, "terminating"},
		"ended":                   {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, nil, "none"},
		"without an address":      {func(p *corev1.Pod) { p.Status.PodIP, p.Status.PodIPs = "", nil }, nil, "none"},
		"of another app":          {func(p *corev1.Pod) { p.Labels["app"] = "db" }, nil, "none"},
		"on an unknown node":      {func(p *corev1.Pod) { p.Spec.NodeName = "n9" }, nil, "none"},
		"on an unknown node, published": {
			func(p *corev1.Pod) { p.Spec.NodeName = "n9" }, publish, "ready serving",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t)
				one, svc := pod(1), service()
				if test.pod != nil {
					test.pod(one)
				}
				if test.service != nil {
					test.service(svc)
				}
				p.Load(one)
				settle()
				controltest.Create(p, svc)
				settle()
				slice, got := only(t, p), "none"
				if len(slice.Endpoints) == 1 {
					got = conditions(slice.Endpoints[0])
				}
				if got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
			})
		})
	}
}

func conditions(e discoveryv1.Endpoint) string {
	var words []string
	for _, c := range []struct {
		name  string
		value *bool
	}{{"ready", e.Conditions.Ready}, {"serving", e.Conditions.Serving}, {"terminating", e.Conditions.Terminating}} {
		if c.value != nil && *c.value {
			words = append(words, c.name)
		}
	}
	return strings.Join(words, " ")
}

func TestAPodOnAnUnknownNodeIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.Load(pod(1, func(p *corev1.Pod) { p.Spec.NodeName = "n9" }))
		settle()
		controltest.Create(p, service())
		settle()
		events := p.Events("FailedToUpdateEndpointSlices")
		want := "Error updating Endpoint Slices for Service default/web: skipping Pod web-1 for Service default/web: Node n9 Not Found"
		if len(events) == 0 || events[0] != want {
			t.Errorf("got Events %q, want %q", events, want)
		}
		p.Load(node("n9", "c"))
		time.Sleep(30 * time.Minute)
		if slice := only(t, p); len(slice.Endpoints) != 1 || *slice.Endpoints[0].Zone != "c" {
			t.Errorf("got endpoints %+v", slice.Endpoints)
		}
	})
}

func TestServicesWithoutSlices(t *testing.T) {
	for name, change := range map[string]func(*corev1.Service){
		"without a selector": func(svc *corev1.Service) { svc.Spec.Selector = nil },
		"an external name":   func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeExternalName },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t)
				p.Load(pod(1))
				settle()
				controltest.Create(p, service(change))
				settle()
				if all := slicesOf(p); len(all) > 0 {
					t.Errorf("got slices %+v", all)
				}
			})
		})
	}
}

func TestAServiceWithoutPodsHasAnEmptySlice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		settle()
		controltest.Create(p, service())
		settle()
		empty := only(t, p)
		if len(empty.Endpoints) != 0 || len(empty.Ports) != 0 {
			t.Errorf("got %+v", empty)
		}
		// The same slice takes the first endpoint, and remains when the last is gone.
		one := pod(1)
		p.Load(one)
		settle()
		if slice := only(t, p); slice.Name != empty.Name || len(slice.Endpoints) != 1 || len(slice.Ports) != 1 {
			t.Errorf("got %+v", slice)
		}
		p.Remove(one)
		settle()
		if slice := only(t, p); slice.Name != empty.Name || len(slice.Endpoints) != 0 || len(slice.Ports) != 0 {
			t.Errorf("got %+v", slice)
		}
		if n := writes(p); n != 3 {
			t.Errorf("got %d writes, want 3", n)
		}
		controltest.Change(p, "default", "web", func(svc *corev1.Service) { svc.Labels["team"] = "y" })
		settle()
		if slice := only(t, p); slice.Name != empty.Name || slice.Labels["team"] != "y" {
			t.Errorf("got %+v", slice.ObjectMeta)
		}
	})
}

func TestBothFamilies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.Load(pod(1, func(p *corev1.Pod) { p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: "fd00::1"}) }), pod(2))
		settle()
		controltest.Create(p, service(func(svc *corev1.Service) {
			svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
		}))
		settle()
		got := map[discoveryv1.AddressType][]string{}
		for _, slice := range slicesOf(p) {
			for _, endpoint := range slice.Endpoints {
				got[slice.AddressType] = append(got[slice.AddressType], endpoint.Addresses...)
			}
		}
		if !slices.Equal(got["IPv4"], []string{"10.1.0.2", "10.1.0.3"}) || !slices.Equal(got["IPv6"], []string{"fd00::1"}) {
			t.Errorf("got %v", got)
		}
		controltest.Change(p, "default", "web", func(svc *corev1.Service) { svc.Spec.IPFamilies = svc.Spec.IPFamilies[:1] })
		settle()
		if slice := only(t, p); slice.AddressType != discoveryv1.AddressTypeIPv4 {
			t.Errorf("the slice of the family that the Service has left remains: %+v", slice)
		}
	})
}

func TestPorts(t *testing.T) {
	sidecar := func(p *corev1.Pod) {
		always := corev1.ContainerRestartPolicyAlways
		p.Spec.InitContainers = []corev1.Container{{
			Name: "s", RestartPolicy: &always, Ports: []corev1.ContainerPort{{Name: "side", ContainerPort: 7070, Protocol: corev1.ProtocolTCP}},
		}, {
			Name: "i", Ports: []corev1.ContainerPort{{Name: "init", ContainerPort: 6060, Protocol: corev1.ProtocolTCP}},
		}}
	}
	for name, test := range map[string]struct {
		target   intstr.IntOrString
		protocol corev1.Protocol
		want     int32
	}{
		"a number":                    {intstr.FromInt32(8080), corev1.ProtocolTCP, 8080},
		"a name":                      {intstr.FromString("metrics"), corev1.ProtocolTCP, 9090},
		"a name, another protocol":    {intstr.FromString("metrics"), corev1.ProtocolUDP, 0},
		"a name that no pod has":      {intstr.FromString("x"), corev1.ProtocolTCP, 0},
		"a name of a sidecar":         {intstr.FromString("side"), corev1.ProtocolTCP, 7070},
		"a name of an init container": {intstr.FromString("init"), corev1.ProtocolTCP, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t)
				p.Load(pod(1, sidecar))
				settle()
				controltest.Create(p, service(func(svc *corev1.Service) {
					svc.Spec.Ports[0].TargetPort, svc.Spec.Ports[0].Protocol = test.target, test.protocol
				}))
				settle()
				slice, got := only(t, p), int32(0)
				if len(slice.Ports) > 0 {
					got = *slice.Ports[0].Port
				}
				if got != test.want || len(slice.Endpoints) != 1 {
					t.Errorf("got port %d of %d endpoints, want %d of 1", got, len(slice.Endpoints), test.want)
				}
			})
		})
	}
}

func TestPodsWithOtherPortsHaveOtherSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.Load(pod(1), pod(2), pod(3, func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].ContainerPort = 9191 }))
		settle()
		controltest.Create(p, service(func(svc *corev1.Service) { svc.Spec.Ports[0].TargetPort = intstr.FromString("metrics") }))
		settle()
		got := map[int32]int{}
		for _, slice := range slicesOf(p) {
			got[*slice.Ports[0].Port] = len(slice.Endpoints)
		}
		if !maps.Equal(got, map[int32]int{9090: 2, 9191: 1}) {
			t.Errorf("got endpoints by port %v", got)
		}
	})
}

func TestAHeadlessService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.Load(pod(1, func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "one", "web" }),
			pod(2, func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "two", "other" }))
		settle()
		controltest.Create(p, service(func(svc *corev1.Service) { svc.Spec.ClusterIP, svc.Spec.Ports = corev1.ClusterIPNone, nil }))
		settle()
		slice := only(t, p)
		if _, marked := slice.Labels[corev1.IsHeadlessService]; !marked || len(slice.Ports) != 0 || len(slice.Endpoints) != 2 {
			t.Fatalf("got %+v", slice)
		}
		for _, endpoint := range slice.Endpoints {
			switch {
			case endpoint.TargetRef.Name == "web-1" && (endpoint.Hostname == nil || *endpoint.Hostname != "one"),
				endpoint.TargetRef.Name == "web-2" && endpoint.Hostname != nil:
				t.Errorf("got endpoint %+v", endpoint)
			}
		}
	})
}

// TestReadinessIsOneWrite checks that a change of a pod is one update, with the time of the change.
func TestReadinessIsOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.Load(pod(1))
		settle()
		controltest.Create(p, service())
		settle()
		writes(p)
		controltest.MarkReady(p, "default", "web-1", false)
		at := controltest.Get[*corev1.Pod](p, "default", "web-1").Status.Conditions[0].LastTransitionTime
		settle()
		slice := only(t, p)
		if got := slice.Annotations[corev1.EndpointsLastChangeTriggerTime]; conditions(slice.Endpoints[0]) != "" || got != at.UTC().Format(time.RFC3339Nano) {
			t.Errorf("got %q at %q, want none at %s", conditions(slice.Endpoints[0]), got, at.UTC())
		}
		if n := writes(p); n != 1 {
			t.Errorf("got %d writes of slices, want 1", n)
		}
	})
}

func TestForeignChanges(t *testing.T) {
	for name, change := range map[string]func(*discoveryv1.EndpointSlice){
		"endpoints":   func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil },
		"labels":      func(s *discoveryv1.EndpointSlice) { s.Labels["x"] = "y" },
		"its service": func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "other" },
		"its manager": func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t)
				p.Load(pod(1))
				settle()
				controltest.Create(p, service())
				settle()
				controltest.Change(p, "default", only(t, p).Name, change)
				settle()
				own := slices.DeleteFunc(slicesOf(p), func(s *discoveryv1.EndpointSlice) bool {
					return s.Labels[discoveryv1.LabelServiceName] != "web" || s.Labels[discoveryv1.LabelManagedBy] != manager
				})
				if len(own) != 1 || len(own[0].Endpoints) != 1 || own[0].Labels["x"] != "" {
					t.Errorf("got %+v", own)
				}
			})
		})
	}
}

// TestAPodThatChangesItsLabels checks the Service that it leaves and the one that it joins.
func TestAPodThatChangesItsLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.Load(pod(1))
		settle()
		controltest.Create(p, service())
		settle()
		controltest.Create(p, service(func(svc *corev1.Service) { svc.Name, svc.Spec.Selector = "db", map[string]string{"app": "db"} }))
		settle()
		writes(p)
		controltest.Change(p, "default", "web-1", func(p *corev1.Pod) { p.Labels["app"] = "db" })
		settle()
		for _, slice := range slicesOf(p) {
			want := 0
			if slice.Labels[discoveryv1.LabelServiceName] == "db" {
				want = 1
			}
			if len(slice.Endpoints) != want {
				t.Errorf("Service %s has %d endpoints, want %d", slice.Labels[discoveryv1.LabelServiceName], len(slice.Endpoints), want)
			}
		}
		if n := writes(p); n != 2 {
			t.Errorf("got %d writes, want 2", n)
		}
		controltest.Change(p, "default", "web-1", func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} })
		settle()
		if n := writes(p); n != 0 {
			t.Errorf("got %d writes for an annotation of a pod", n)
		}
	})
}

func TestADeletedSliceIsMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.Load(pod(1))
		settle()
		controltest.Create(p, service())
		settle()
		p.Remove(only(t, p))
		settle()
		if slice := only(t, p); len(slice.Endpoints) != 1 {
			t.Errorf("got %+v", slice)
		}
	})
}

// TestASliceThatIsBeingDeleted checks that what a finalizer holds is not taken for a slice of the Service.
func TestASliceThatIsBeingDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.Load(pod(1))
		settle()
		controltest.Create(p, service())
		settle()
		slice, now := only(t, p), metav1.Now()
		slice.DeletionTimestamp, slice.Finalizers = &now, []string{"example.com/hold"}
		p.Load(slice)
		settle()
		if got := sizes(p); !slices.Equal(got, []int{1, 1}) {
			t.Errorf("got slices with %v endpoints, want the one that is held and a new one", got)
		}
	})
}

func TestATerminatingNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.Fail(func(call client.Call) error {
			if call.Kind.Resource != "endpointslices" || call.Verb != "create" {
				return nil
			}
			err := apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), "", errors.New("it ends"))
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
			return err
		})
		settle()
		controltest.Create(p, service())
		time.Sleep(time.Hour)
		if events := p.Events("FailedToUpdateEndpointSlices"); len(events) > 0 {
			t.Errorf("got Events %q", events)
		}
		if n := len(p.Calls()); n > 50 {
			t.Errorf("got %d calls: it tries without end", n)
		}
	})
}

// TestALaterTermTakesUp checks that a second term sees what happened between the two, and writes no more
// than that takes.
func TestALaterTermTakesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t, node("n1", "a"), node("n2", "b"), pod(1), service())
		runner := p.Runner(New)
		p.Start()
		term := func(during func()) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- runner.Run(ctx) }()
			settle()
			during()
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		term(func() {})
		p.Load(pod(2))
		writes(p)
		term(func() {
			if slice := only(t, p); len(slice.Endpoints) != 2 {
				t.Errorf("got %+v", slice.Endpoints)
			}
		})
		if n := writes(p); n != 1 {
			t.Errorf("got %d writes, want 1", n)
		}
	})
}

// TestActsOnceOnAStaleCache checks that late caches make no second slice.
func TestActsOnceOnAStaleCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.NewLate(t, "EndpointSlice", 2*time.Second, node("n1", "a"), node("n2", "b"))
		p.Declare(New)
		p.Start()
		settle()
		controltest.Create(p, service())
		for n := range 20 {
			p.Load(pod(n))
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if got := sizes(p); !slices.Equal(got, []int{20}) {
			t.Errorf("got slices with %v endpoints, want one with 20", got)
		}
	})
}
