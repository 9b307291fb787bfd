package endpoints_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/fabric/endpoints"
)

type slice = discoveryv1.EndpointSlice

// newSlice returns a slice of the service "s" with the port "https" and ready endpoints.
func newSlice(kind discoveryv1.AddressType, port int32, addresses ...string) *slice {
	name := "https"
	s := &slice{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelServiceName: "s"}}, AddressType: kind,
		Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
	}
	for _, address := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}
	return s
}

// TestEndpoints resolves a service with the ports 443 (https) and 80 (http).
// TestResolve checks which endpoints of a Service a webhook or an aggregated API is called at.
func TestResolve(t *testing.T) {
	no, v4, v6 := false, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6
	unready := newSlice(v4, 8443, "1.1.1.1", "1.1.1.2", "1.1.1.3")
	unready.Endpoints[0].Conditions.Ready, unready.Endpoints[2].Conditions.Ready = &no, &no
	foreign := newSlice(v4, 8443, "9.9.9.9")
	foreign.Labels[discoveryv1.LabelServiceName] = "other"
	portless := newSlice(v4, 8443, "9.9.9.9")
	portless.Ports = []discoveryv1.EndpointPort{{}, {Name: portless.Ports[0].Name}}
	addressless := newSlice(v4, 8443, "9.9.9.9")
	addressless.Endpoints[0].Addresses = nil
	broken := errors.New("broken")
	const none = `no endpoints available for service "s"`
	for _, tc := range []struct {
		name   string
		change func(*corev1.Service)
		port   int32
		slices []*slice
		err    error
		want   []string // any of these
		fault  string
	}{
		{name: "one", slices: []*slice{newSlice(v4, 8443, "1.1.1.1")}, want: []string{"1.1.1.1:8443"}},
		{name: "several", slices: []*slice{newSlice(v4, 8443, "1.1.1.1", "1.1.1.2"), newSlice(v4, 9443, "1.1.1.3")}, want: []string{"1.1.1.1:8443", "1.1.1.2:8443", "1.1.1.3:9443"}},
		{name: "the ready one", slices: []*slice{unready}, want: []string{"1.1.1.2:8443"}},
		{name: "the first family", change: func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{"IPv6", "IPv4"} },
			slices: []*slice{newSlice(v4, 8443, "1.1.1.1"), newSlice(v6, 8443, "fd00::1")}, want: []string{"[fd00::1]:8443"}},
		{name: "the other family", change: func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{"IPv6", "IPv4"} },
			slices: []*slice{newSlice(v4, 8443, "1.1.1.1"), newSlice(v6, 8443)}, want: []string{"1.1.1.1:8443"}},
		{name: "names", slices: []*slice{newSlice(discoveryv1.AddressTypeFQDN, 8443, "a.b")}, fault: none},
		{name: "none", fault: none},
		{name: "another service's", slices: []*slice{foreign}, fault: none},
		{name: "another port's", port: 80, slices: []*slice{newSlice(v4, 8443, "1.1.1.1")}, fault: none},
		{name: "no port", slices: []*slice{portless, addressless}, fault: none},
		{name: "an unknown port", port: 81, fault: `no service port 81 found for service "s"`},
		{name: "an external name", port: 81, change: func(s *corev1.Service) { s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "a.b" }, want: []string{"a.b:81"}},
		{name: "an unknown type", change: func(s *corev1.Service) { s.Spec.Type = "X" }, fault: `unsupported service type "X"`},
		{name: "an error", err: broken, fault: "broken"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			service := &corev1.Service{Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "https", Port: 443}},
			}}
			if tc.change != nil {
				tc.change(service)
			}
			port := tc.port
			if port == 0 {
				port = 443
			}
			services := endpoints.Services{
				Service: func(context.Context, string, string) (*corev1.Service, error) { return service, nil },
				Slices:  func(context.Context, string) ([]*slice, error) { return tc.slices, tc.err },
			}
			got := map[string]bool{}
			for range 100 {
				at, err := services.Resolve(t.Context(), "ns", "s", port)
				if (err == nil) != (tc.fault == "") || err != nil && err.Error() != tc.fault {
					t.Fatalf("got %+v, %v, want %s", at, err, tc.fault)
				}
				if err == nil {
					got[at.Address] = true
				}
			}
			for at := range got {
				if !slices.Contains(tc.want, at) {
					t.Errorf("got %s", at)
				}
			}
			if len(got) != len(tc.want) {
				t.Errorf("got %v, want all of %v", got, tc.want)
			}
		})
	}
}
