package endpoints

import (
	"cmp"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// candidate is an endpoint that is ready, and the number of its port.
type candidate struct {
	*discoveryv1.Endpoint
	port string
}

// Ready returns the addresses of the ready endpoints of a Service's port, in their order.
func Ready(all []*discoveryv1.EndpointSlice, service, port string) []string {
	var addresses []string
	for one := range ready(all, service, port, "") {
		addresses = append(addresses, one.Addresses[0])
	}
	slices.Sort(addresses)
	return addresses
}

// ready returns the ready endpoints of a Service's port in random order: those of the preferred family first.
func ready(all []*discoveryv1.EndpointSlice, service, port string, preferred discoveryv1.AddressType) iter.Seq[candidate] {
	var own []*discoveryv1.EndpointSlice
	for _, slice := range all {
		if slice.Labels[discoveryv1.LabelServiceName] == service && slice.AddressType != discoveryv1.AddressTypeFQDN {
			own = append(own, slice)
		}
	}
	rand.Shuffle(len(own), func(i, j int) { own[i], own[j] = own[j], own[i] })
	slices.SortStableFunc(own, func(a, b *discoveryv1.EndpointSlice) int {
		return cmp.Compare(rank(a, preferred), rank(b, preferred))
	})
	return func(yield func(candidate) bool) {
		for _, slice := range own {
			at := slices.IndexFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool {
				return p.Port != nil && (p.Name == nil && port == "" || p.Name != nil && *p.Name == port)
			})
			if at < 0 || len(slice.Endpoints) == 0 {
				continue
			}
			first := rand.IntN(len(slice.Endpoints)) //nolint:gosec // It spreads load.
			for i := range slice.Endpoints {
				endpoint := &slice.Endpoints[(first+i)%len(slice.Endpoints)]
				if ready := endpoint.Conditions.Ready; ready != nil && !*ready || len(endpoint.Addresses) == 0 {
					continue
				}
				if !yield(candidate{endpoint, strconv.Itoa(int(*slice.Ports[at].Port))}) {
					return
				}
			}
		}
	}
}

func rank(slice *discoveryv1.EndpointSlice, preferred discoveryv1.AddressType) int {
	if slice.AddressType == preferred {
		return 0
	}
	return 1
}
