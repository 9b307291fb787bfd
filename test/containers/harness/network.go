package harness

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
)

// network is the network of the pods.
type network struct {
	bridge string
	subnet netip.Prefix
}

// freeNetwork picks a bridge name and an address range that the machine does not use.
func freeNetwork() (network, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return network{}, err
	}
	used := map[string]bool{}
	var ranges []netip.Prefix
	for _, one := range interfaces {
		used[one.Name] = true
		addresses, err := one.Addrs()
		if err != nil {
			continue // removed meanwhile
		}
		for _, address := range addresses {
			if prefix, err := netip.ParsePrefix(address.String()); err == nil {
				ranges = append(ranges, prefix.Masked())
			}
		}
	}
	for range 1000 { // outside the ranges of Services and pods that a plane has by default
		number := rand.IntN(1 << 16)
		candidate := network{
			bridge: fmt.Sprintf("gbtest%04x", number),
			subnet: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(128 + rand.IntN(64)), byte(number), 0}), 24),
		}
		free := !used[candidate.bridge]
		for _, taken := range ranges {
			free = free && !taken.Overlaps(candidate.subnet)
		}
		if free {
			return candidate, nil
		}
	}
	return network{}, errors.New("no free range of addresses for the pods")
}

// conflist returns the CNI configuration. Its MTU suits machines whose own network is a tunnel.
func (n network) conflist(dir string) string {
	return fmt.Sprintf(`{
  "cniVersion": "1.0.0",
  "name": %q,
  "plugins": [
    {
      "type": "bridge", "bridge": %q, "isGateway": true, "ipMasq": true, "hairpinMode": true, "mtu": 1400,
      "ipam": {
        "type": "host-local", "dataDir": %q,
        "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`, n.bridge, n.bridge, dir+"/ipam", n.subnet)
}
