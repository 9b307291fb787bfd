// Package builtin has the objects by which an apiserver tells of itself: the groups and versions
// that it serves, how it shares itself out, and where it is.
package builtin

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/fairness"
	"github.com/garboard/garboard/services/apiserver/internal/localapis"
	"github.com/garboard/garboard/services/apiserver/internal/store"
)

// Lister lists what etcd holds of a kind.
type Lister interface {
	List(ctx context.Context, kind *scheme.Kind, opts store.ListOptions) (store.Page, error)
}

// Ensure creates what is missing of the APIServices of the table's groups and versions, and of
// the priority levels and flow schemas that always exist. When nothing is, it costs three lists.
// create need not mind objects that somebody else has just created.
func Ensure(ctx context.Context, table *scheme.Table, stored Lister, create func(context.Context, scheme.Object) error) error {
	services, err := localapis.Of(table)
	if err != nil {
		return err
	}
	if err := missing(ctx, table, stored, services, create); err != nil {
		return err
	}
	if err := missing(ctx, table, stored, fairness.PriorityLevels(), create); err != nil {
		return err
	}
	return missing(ctx, table, stored, fairness.FlowSchemas(), create)
}

// missing creates those of some cluster-wide objects of one kind that do not exist.
func missing[T scheme.Object](ctx context.Context, table *scheme.Table, stored Lister, objs []T, create func(context.Context, scheme.Object) error) error {
	kind := scheme.For[T](table)
	page, err := stored.List(ctx, kind, store.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing %s: %w", kind.Resource, err)
	}
	exist := map[string]bool{}
	for _, obj := range page.Objects {
		exist[obj.GetName()] = true
	}
	for _, obj := range objs {
		if exist[obj.GetName()] {
			continue
		}
		if err := create(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

// Endpoints is the EndpointSlice that says where an apiserver is, of a Service of some name in
// the default namespace.
func Endpoints(service string, advertise netip.AddrPort) *discoveryv1.EndpointSlice {
	addressType := discoveryv1.AddressTypeIPv4
	if advertise.Addr().Is6() {
		addressType = discoveryv1.AddressTypeIPv6
	}
	name, protocol, port, ready := "https", corev1.ProtocolTCP, int32(advertise.Port()), true
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: service,
			Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: addressType,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{advertise.Addr().String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		}},
		Ports: []discoveryv1.EndpointPort{{Name: &name, Protocol: &protocol, Port: &port}},
	}
}
