package discovery

import (
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

// TestRows checks that the cells are those that kubectl shows against Kubernetes.
func TestRows(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "x", CreationTimestamp: kindtest.Ago(3 * time.Hour)}
	for _, tc := range []struct {
		name  string
		kind  *kinds.Definition
		obj   scheme.Object
		cells []any
	}{
		{
			"endpoint slice", EndpointSlice(), &discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: "IPv4", Ports: []discoveryv1.EndpointPort{{Port: new(int32(80))}},
				Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"1", "2"}}, {Addresses: []string{"3"}}, {Addresses: []string{"4"}}}},
			[]any{"x", "IPv4", "80", "1,2,3 + 1 more...", "3h"},
		},
		{
			"nameless port", EndpointSlice(), &discoveryv1.EndpointSlice{
				ObjectMeta: meta, AddressType: "IPv4", Ports: []discoveryv1.EndpointPort{{Name: new("")}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{""}}},
			},
			[]any{"x", "IPv4", "<unset>", "<unset>", "3h"},
		},
		{"any port", EndpointSlice(), &discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: "IPv4", Ports: []discoveryv1.EndpointPort{{}, {Name: new("a")}}}, []any{"x", "IPv4", "*,a", "<unset>", "3h"}},
	} {
		t.Run(tc.name, func(t *testing.T) { kindtest.Cells(t, tc.kind, tc.obj, tc.cells) })
	}
}
