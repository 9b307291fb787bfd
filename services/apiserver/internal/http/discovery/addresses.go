package discovery

import (
	"net/http"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Addresses are where clients reach the server, as shown at /api.
type Addresses struct {
	// External is host:port for all clients; it is not shown if empty.
	External string
	// Services is the range of service addresses. Clients with an address in it are also shown
	// Internal, the host:port of the `kubernetes` Service.
	Services netip.Prefix
	Internal string
}

// of returns the addresses shown to the client of a request.
func (a Addresses) of(r *http.Request) []metav1.ServerAddressByClientCIDR {
	addresses := []metav1.ServerAddressByClientCIDR{}
	if a.External != "" {
		addresses = append(addresses, metav1.ServerAddressByClientCIDR{ClientCIDR: "0.0.0.0/0", ServerAddress: a.External})
	}
	client, ok := netip.AddrFromSlice(utilnet.GetClientIP(r))
	if ok && a.Internal != "" && a.Services.Contains(client.Unmap()) {
		addresses = append(addresses, metav1.ServerAddressByClientCIDR{ClientCIDR: a.Services.String(), ServerAddress: a.Internal})
	}
	return addresses
}
