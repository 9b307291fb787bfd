package agent

import (
	"net/netip"
	"sync"
	"time"
)

// addresses knows which pod of the node has an address.
type addresses struct {
	mu sync.Mutex
	// namespaces are those of the pods by address, as of the PLEG's list of a time.
	namespaces map[netip.Addr]string
	listed     time.Time
}

// PodNamespace returns the namespace of the node's pod that has an address of its own. A pod is known about a
// second after its start.
func (a *Agent) PodNamespace(address netip.Addr) (namespace string, ok bool) {
	pods, listed := a.pleg.Pods()
	a.addresses.mu.Lock()
	defer a.addresses.mu.Unlock()
	if a.addresses.namespaces == nil || !a.addresses.listed.Equal(listed) {
		a.addresses.namespaces, a.addresses.listed = map[netip.Addr]string{}, listed
		for uid, state := range pods {
			pod := a.pods.Get(uid)
			if pod == nil || pod.Spec.HostNetwork {
				continue
			}
			for _, text := range state.IPs() {
				if ip, err := netip.ParseAddr(text); err == nil {
					a.addresses.namespaces[ip.Unmap()] = pod.Namespace
				}
			}
		}
	}
	namespace, ok = a.addresses.namespaces[address.Unmap()]
	return namespace, ok
}
