package discovery

import (
	"net/http"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Addresses are where clients reach the server, as /api tells them.
type Addresses struct {
	// External is host:port for everyone; nothing is told if it is empty.
	External string
	// Services is the range of service addresses; clients in it are also told Internal, the
	// host:port of the `kubernetes` Service.
	Services netip.Prefix
	Internal string
}

// of gives what is told to the client of a request.
func (a Addresses) of(r *http.Request) []metav1.ServerAddressByClientCIDR {
	told := []metav1.ServerAddressByClientCIDR{}
	if a.External != "" {
		told = append(told, metav1.ServerAddressByClientCIDR{ClientCIDR: "0.0.0.0/0", ServerAddress: a.External})
	}
	client, ok := netip.AddrFromSlice(utilnet.GetClientIP(r))
	if ok && a.Internal != "" && a.Services.Contains(client.Unmap()) {
		told = append(told, metav1.ServerAddressByClientCIDR{ClientCIDR: a.Services.String(), ServerAddress: a.Internal})
	}
	return told
}
