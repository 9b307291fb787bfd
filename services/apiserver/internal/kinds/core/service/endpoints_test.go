package service

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestEndpointsWarnings checks that addresses of both lists are looked at, unless the controller of
// endpoints wrote them.
func TestEndpointsWarnings(t *testing.T) {
	e := &corev1.Endpoints{Subsets: []corev1.EndpointSubset{{}, {
		Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1"}, {IP: "010.0.0.1"}}, NotReadyAddresses: []corev1.EndpointAddress{{IP: "::ffff:10.0.0.1"}, {IP: "garbage"}},
	}}}
	got := Endpoints().Warnings(e)
	if len(got) != 2 || !strings.HasPrefix(got[0], "subsets[1].addresses[1].ip: ") || !strings.HasPrefix(got[1], "subsets[1].notReadyAddresses[0].ip: ") {
		t.Errorf("got warnings %q", got)
	}
	e.Labels = map[string]string{endpointsManagedBy: endpointsController}
	if got := Endpoints().Warnings(e); got != nil {
		t.Errorf("of the controller: got warnings %q", got)
	}
}
