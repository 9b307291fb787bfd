package sample

import (
	"net/netip"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
)

func TestServicesHaveAddressesOfTheirOwn(t *testing.T) {
	const most = 10_000
	ranges := map[string]netip.Prefix{"service": netip.MustParsePrefix("10.96.0.0/12"), "endpoint": netip.MustParsePrefix("10.128.0.0/10")}
	changed := netip.MustParseAddr("10.168.0.0") // Benchmarks take addresses from here for endpoints that change.
	names, seen := map[string]bool{}, map[netip.Addr]bool{}
	take := func(kind, text string) {
		address, err := netip.ParseAddr(text)
		if err != nil || seen[address] || !ranges[kind].Contains(address) || kind == "endpoint" && !address.Less(changed) {
			t.Fatalf("%s has the address %q, which is no other's: %v, %v", kind, text, seen[address], err)
		}
		seen[address] = true
	}
	for i := range most {
		service, slice := Service(i), EndpointSlice(i)
		take("service", service.Spec.ClusterIP)
		if names[service.Name] || slice.Labels[discoveryv1.LabelServiceName] != service.Name || len(slice.Endpoints) != endpointsEach {
			t.Fatalf("Service %s has the slice %v", service.Name, slice)
		}
		names[service.Name] = true
		if port, of := service.Spec.Ports[0], slice.Ports[0]; port.Name != *of.Name || port.Protocol != *of.Protocol || port.TargetPort.IntVal != *of.Port {
			t.Fatalf("the port of Service %s is %v, that of its slice %v", service.Name, port, of)
		}
		for e, endpoint := range slice.Endpoints {
			if len(endpoint.Addresses) != 1 || endpoint.Addresses[0] != Endpoint(i, e) || endpoint.Conditions.Ready == nil || !*endpoint.Conditions.Ready {
				t.Fatalf("endpoint %d of Service %s is %v", e, service.Name, endpoint)
			}
			take("endpoint", endpoint.Addresses[0])
		}
	}
}
