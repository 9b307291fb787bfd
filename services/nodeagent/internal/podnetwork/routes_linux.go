package podnetwork

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// end is the other end of a tunnel: the node that packets for a hardware address go to.
type end struct {
	address, hardware string
}

// neighbours has the tunnel know where the other nodes' ends are, and forget the others.
func (c *changes) neighbours(plan *Plan, tunnel netlink.Link) error {
	index := tunnel.Attrs().Index
	wanted := map[end]netlink.Neigh{}
	for _, peer := range plan.Peers {
		if !peer.Tunnel {
			continue
		}
		mac := peer.Hardware
		forward := netlink.Neigh{
			LinkIndex: index, Family: unix.AF_BRIDGE, State: unix.NUD_PERMANENT, Flags: netlink.NTF_SELF,
			IP: peer.Address.AsSlice(), HardwareAddr: mac,
		}
		wanted[keyOf(forward)] = forward
		for _, cidr := range peer.CIDRs {
			neighbour := netlink.Neigh{
				LinkIndex: index, Family: family(cidr), State: unix.NUD_PERMANENT, IP: cidr.Addr().AsSlice(), HardwareAddr: mac,
			}
			wanted[keyOf(neighbour)] = neighbour
		}
	}
	for _, of := range []int{unix.AF_BRIDGE, unix.AF_INET, unix.AF_INET6} {
		found, err := netlink.NeighList(index, of)
		if err != nil {
			return fmt.Errorf("listing the neighbours of %s: %w", tunnelName, err)
		}
		for _, neighbour := range found {
			neighbour.Family = of
			key := keyOf(neighbour)
			if _, ok := wanted[key]; ok {
				delete(wanted, key)
				continue
			}
			if neighbour.State&unix.NUD_PERMANENT == 0 || neighbour.IP.IsMulticast() || neighbour.IP == nil {
				continue
			}
			if err := netlink.NeighDel(&neighbour); err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("removing the neighbour %s of %s: %w", neighbour.IP, tunnelName, err)
			}
			c.any = true
		}
	}
	for _, neighbour := range wanted {
		if err := netlink.NeighSet(&neighbour); err != nil {
			c.fail(fmt.Errorf("adding the neighbour %s of %s: %w", neighbour.IP, tunnelName, err))
			continue
		}
		c.any = true
	}
	return nil
}

func keyOf(neighbour netlink.Neigh) end {
	return end{address: fmt.Sprint(neighbour.Family == unix.AF_BRIDGE, neighbour.IP), hardware: neighbour.HardwareAddr.String()}
}

func family(cidr netip.Prefix) int {
	if cidr.Addr().Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// routes adds the routes to the other nodes' pods, and removes those to nodes that are no more. tunnel is nil
// if the plan has no tunnels.
func (c *changes) routes(plan *Plan, host Host, tunnel netlink.Link) error {
	wanted, err := wantedRoutes(plan, host, tunnel)
	if err != nil {
		return err
	}
	replaced := maps.Clone(wanted)
	var others []netlink.Route
	for _, of := range []int{unix.AF_INET, unix.AF_INET6} {
		found, err := netlink.RouteListFiltered(of, &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
		if err != nil {
			return fmt.Errorf("listing the routes to pods: %w", err)
		}
		for _, route := range found {
			if route.Dst == nil {
				continue
			}
			want, ok := wanted[route.Dst.String()]
			if ok && want.LinkIndex == route.LinkIndex && want.Gw.Equal(route.Gw) {
				delete(replaced, route.Dst.String())
			} else {
				others = append(others, route)
			}
		}
	}
	for _, route := range others {
		// The kernel refuses a gateway of IPv6 that, by a present route, is at another interface.
		want, ok := replaced[route.Dst.String()]
		if ok && (want.Family == unix.AF_INET || want.LinkIndex == route.LinkIndex) {
			continue
		}
		if err := netlink.RouteDel(&route); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("removing the route to %s: %w", route.Dst, err)
		}
		c.any = true
	}
	for _, route := range replaced {
		if err := netlink.RouteReplace(&route); err != nil {
			c.fail(fmt.Errorf("adding the route to %s: %w", route.Dst, err))
			continue
		}
		c.any = true
	}
	return nil
}

// wantedRoutes returns the routes of a plan by destination.
func wantedRoutes(plan *Plan, host Host, tunnel netlink.Link) (map[string]netlink.Route, error) {
	wanted := map[string]netlink.Route{}
	direct := 0
	if host.Interface != "" {
		link, err := netlink.LinkByName(host.Interface)
		if err != nil {
			return nil, fmt.Errorf("finding the interface %s: %w", host.Interface, err)
		}
		direct = link.Attrs().Index
	}
	for _, peer := range plan.Peers {
		for _, cidr := range peer.CIDRs {
			route := netlink.Route{Dst: ipNet(cidr), Protocol: routeProtocol, Family: family(cidr)}
			switch {
			case peer.Tunnel:
				route.LinkIndex, route.Gw, route.Flags = tunnel.Attrs().Index, net.IP(cidr.Addr().AsSlice()), int(netlink.FLAG_ONLINK)
			case !peer.via(cidr).IsValid():
				continue
			default:
				route.LinkIndex, route.Gw = direct, net.IP(peer.via(cidr).AsSlice())
			}
			wanted[route.Dst.String()] = route
		}
	}
	return wanted, nil
}
