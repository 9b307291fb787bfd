package endpoints_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/fabric/endpoints"
)

// of returns an endpoint that says it is a pod of the namespace ns.
func of(address, kind, pod string) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{address}}
	if pod != "" {
		e.TargetRef = &corev1.ObjectReference{Kind: kind, Namespace: "ns", Name: pod}
	}
	return e
}

// TestPods checks which endpoints are pods: only those are, whose pod has the address, since a client chooses
// the Service of a proxy.
func TestPods(t *testing.T) {
	t.Parallel()
	web := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"},
		Status:     corev1.PodStatus{PodIP: "10.1.2.3", PodIPs: []corev1.PodIP{{IP: "10.1.2.3"}, {IP: "fd00::3"}}},
	}
	for _, tc := range []struct {
		name, port string
		endpoint   discoveryv1.Endpoint
		isPod      bool
		fault      string // of PodOf, if there is no pod
	}{
		{name: "its address", port: "443", endpoint: of("10.1.2.3", "Pod", "web"), isPod: true},
		{name: "its other address", port: "https", endpoint: of("fd00::3", "Pod", "web"), isPod: true},
		{name: "another address", port: "443", endpoint: of("169.254.169.254", "Pod", "web")},
		{name: "a pod that is gone", port: "443", endpoint: of("10.1.2.3", "Pod", "gone")},
		{name: "no pod", port: "443", endpoint: of("10.1.2.3", "Node", "web")},
		{name: "no reference", port: "443", endpoint: of("10.1.2.3", "", "")},
		{name: "an unknown port", port: "80", endpoint: of("10.1.2.3", "Pod", "web"), fault: `no service port 80 found for service "s"`},
		{name: "an unknown name", port: "http", endpoint: of("10.1.2.3", "Pod", "web")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			https, number := "https", int32(8443)
			services := endpoints.Services{
				Service: func(context.Context, string, string) (*corev1.Service, error) {
					return &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Name: https, Port: 443}}}}, nil
				},
				Slices: func(context.Context, string) ([]*slice, error) {
					return []*slice{{
						ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelServiceName: "s"}},
						Endpoints:  []discoveryv1.Endpoint{tc.endpoint}, Ports: []discoveryv1.EndpointPort{{Name: &https, Port: &number}},
					}}, nil
				},
				Pod: func(_ context.Context, namespace, name string) (*corev1.Pod, error) {
					if namespace != "ns" || name != "web" {
						return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
					}
					return web, nil
				},
			}
			pod, port, err := services.PodOf(t.Context(), "ns", "s", tc.port)
			if tc.isPod && (pod != web || port != "8443" || err != nil) {
				t.Errorf("got %v, %q, %v", pod, port, err)
			}
			if tc.fault == "" {
				tc.fault = `no endpoints available for service "s"`
			}
			if !tc.isPod && (err == nil || err.Error() != tc.fault) {
				t.Errorf("got %v, %v, want %s", pod, err, tc.fault)
			}
			if got, err := services.Resolve(t.Context(), "ns", "s", 443); err != nil || (got.Pod == web) != tc.isPod && tc.port != "80" && tc.port != "http" || got.Port != "8443" {
				t.Errorf("resolved to %+v, %v", got, err)
			}
		})
	}
}
