package discovery

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDeprecatedTopology checks that the node of an endpoint survives in the old field only as far as
// the object had it already, and that the generation counts changes other than of metadata.
func TestDeprecatedTopology(t *testing.T) {
	slice := func(host string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Generation: 3}, Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{"10.0.0.1"}, DeprecatedTopology: map[string]string{corev1.LabelHostname: host, "zone": "z"},
		}}}
	}
	kind := EndpointSlice()
	created := slice("n1")
	if kind.PrepareForCreate(created); created.Endpoints[0].DeprecatedTopology != nil || created.Endpoints[0].NodeName != nil || created.Generation != 1 {
		t.Errorf("created as %+v", created)
	}
	same := slice("n1")
	same.Annotations = map[string]string{"a": "b"}
	if kind.Update.Prepare(same, slice("n1")); same.Endpoints[0].DeprecatedTopology == nil || same.Generation != 3 {
		t.Errorf("an update of its annotations made %+v", same)
	}
	for name, tc := range map[string]struct {
		host, before string
		node         *string
	}{
		"known":    {"n1", "n1", new("n1")},
		"unknown":  {"n2", "n1", nil},
		"not name": {"N!", "N!", nil},
	} {
		changed := slice(tc.host)
		changed.Endpoints[0].Addresses[0] = "10.0.0.2"
		kind.Update.Prepare(changed, slice(tc.before))
		got := changed.Endpoints[0]
		if got.DeprecatedTopology != nil || changed.Generation != 4 || (got.NodeName == nil) != (tc.node == nil) || got.NodeName != nil && *got.NodeName != *tc.node {
			t.Errorf("%s: got %+v", name, changed)
		}
	}
	labelled := slice("n1")
	labelled.Labels = map[string]string{"a": "b"}
	if kind.Update.Prepare(labelled, slice("n1")); labelled.Generation != 4 {
		t.Errorf("with another label: got generation %d", labelled.Generation)
	}
}

func TestEndpointSliceWarnings(t *testing.T) {
	kind := EndpointSlice()
	s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv6, Endpoints: []discoveryv1.Endpoint{{}, {Addresses: []string{"fd00::1", "FD00::2"}}}}
	if got := kind.Warnings(s); len(got) != 1 || !strings.HasPrefix(got[0], "endpoints[1].addresses[1]: ") {
		t.Errorf("got warnings %q", got)
	}
	for _, controller := range []string{"endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"} {
		s.Labels = map[string]string{discoveryv1.LabelManagedBy: controller}
		if got := kind.Warnings(s); got != nil {
			t.Errorf("%s: got warnings %q", controller, got)
		}
	}
	if got := kind.CreationWarnings(s); got != nil {
		t.Errorf("of addresses: got warnings %q", got)
	}
	s.AddressType = discoveryv1.AddressTypeFQDN
	if got := kind.CreationWarnings(s); len(got) != 1 {
		t.Errorf("of names: got warnings %q", got)
	}
}
