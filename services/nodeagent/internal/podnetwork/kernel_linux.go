package podnetwork

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// tunnelName is the name of the VXLAN device, vxlanID and vxlanPort its network and its UDP port (IANA's).
	tunnelName = "gb-vxlan"
	vxlanID    = 26466
	vxlanPort  = 4789
	// routeProtocol marks the routes of this package, so that they are known after a restart.
	routeProtocol netlink.RouteProtocol = 103
)

// linux is the kernel by way of netlink, /proc and nftables.
type linux struct{}

func newKernel() kernel { return linux{} }

// bridgeFilter is there if the kernel shows rules what crosses a bridge.
const bridgeFilter = "/proc/sys/net/bridge"

// prepare has the kernel show rules what crosses a bridge. Otherwise a pod that asks a Service is answered by a pod
// of its own node past the rules, from an address that it did not ask.
func (linux) prepare(ctx context.Context) error {
	if _, err := os.Stat(bridgeFilter); err == nil {
		return nil
	}
	_ = exec.CommandContext(ctx, "modprobe", "br_netfilter").Run() // The next line tells.
	if _, err := os.Stat(bridgeFilter); err != nil {
		return errors.New("the kernel has no module br_netfilter: pods cannot reach Services by endpoints on their own node; " +
			"load it on the machine (modprobe br_netfilter) and restart the node agent")
	}
	return nil
}

func (linux) host(address netip.Addr, bridge string) (Host, error) {
	host := Host{Address: address}
	links, err := netlink.LinkList()
	if err != nil {
		return host, fmt.Errorf("listing the network interfaces: %w", err)
	}
	networks, err := addressesByIndex()
	if err != nil {
		return host, err
	}
	for _, link := range links {
		name, index := link.Attrs().Name, link.Attrs().Index
		if name == bridge || name == tunnelName {
			continue
		}
		for _, network := range networks[index] {
			host.Addresses, host.Networks = append(host.Addresses, network.Addr()), append(host.Networks, network.Masked())
			if network.Addr() == address {
				host.Interface, host.MTU = name, link.Attrs().MTU
				host.Links = masked(networks[index])
			}
		}
	}
	if host.Interface == "" {
		return host, fmt.Errorf("no network interface has the node's address %s; name another one with --node-ip", address)
	}
	return host, nil
}

// addressesByIndex returns the addresses of the machine's interfaces by their index, each with the length of its network.
func addressesByIndex() (map[int][]netip.Prefix, error) {
	all, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("listing the addresses: %w", err)
	}
	found := map[int][]netip.Prefix{}
	for _, one := range all {
		if ip, ok := netip.AddrFromSlice(one.IP); ok {
			ones, _ := one.Mask.Size()
			found[one.LinkIndex] = append(found[one.LinkIndex], netip.PrefixFrom(ip.Unmap(), ones))
		}
	}
	return found, nil
}

func masked(prefixes []netip.Prefix) []netip.Prefix {
	var all []netip.Prefix
	for _, prefix := range prefixes {
		all = append(all, prefix.Masked())
	}
	return all
}

func (linux) apply(ctx context.Context, plan *Plan, host Host, bridge string) (changed bool, err error) {
	var done changes
	if err := done.forwarding(plan); err != nil {
		return done.any, err
	}
	if err := done.oldGateways(plan, bridge); err != nil {
		return done.any, err
	}
	var tunnel netlink.Link
	if plan.Tunnels() {
		if tunnel, err = done.tunnel(plan, host); err != nil {
			return done.any, err
		}
		if err := done.neighbours(plan, tunnel); err != nil {
			return done.any, err
		}
	} else if err := done.noTunnel(); err != nil {
		return done.any, err
	}
	if err := done.routes(plan, host, tunnel); err != nil {
		return done.any, err
	}
	filtered, err := filter(ctx, plan)
	if err == nil && done.unreached != nil {
		err = &unreachedError{errors.Join(done.unreached...)}
	}
	return done.any || filtered, err
}

func (linux) remove(ctx context.Context, _ string) error {
	var done changes
	return errors.Join(done.noTunnel(), done.routes(&Plan{}, Host{}, nil), unfilter(ctx))
}

// changes makes changes and notes whether there was one.
type changes struct {
	any bool
	// unreached says which nodes could not be connected to, at most maxUnreached times.
	unreached []error
}

// maxUnreached bounds the errors about nodes that are told.
const maxUnreached = 5

// fail notes that a node could not be connected to. The others are still connected to: what one Node says must
// not take away the network of all.
func (c *changes) fail(err error) {
	if len(c.unreached) < maxUnreached {
		c.unreached = append(c.unreached, err)
	}
}

// oldGateways removes those addresses of the bridge that are in none of the node's CIDRs, which it had before.
func (c *changes) oldGateways(plan *Plan, bridge string) error {
	link, err := netlink.LinkByName(bridge)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil // The plugin makes it with the first pod.
	} else if err != nil {
		return fmt.Errorf("finding the bridge %s: %w", bridge, err)
	}
	return c.oldAddresses(link, func(ip netip.Addr) bool {
		return slices.ContainsFunc(plan.CIDRs, func(cidr netip.Prefix) bool { return cidr.Contains(ip) })
	})
}

// oldAddresses removes the addresses of an interface that are not wanted.
func (c *changes) oldAddresses(link netlink.Link, wanted func(netip.Addr) bool) error {
	addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("listing the addresses of %s: %w", link.Attrs().Name, err)
	}
	for _, address := range addresses {
		ip, _ := netip.AddrFromSlice(address.IP)
		if ip = ip.Unmap(); ip.IsLinkLocalUnicast() || wanted(ip) {
			continue
		}
		if err := netlink.AddrDel(link, &address); err != nil {
			return fmt.Errorf("removing the old address %s of %s: %w", ip, link.Attrs().Name, err)
		}
		c.any = true
	}
	return nil
}

// tunnel makes the VXLAN device, or makes it anew if it is not as it should be, and returns it.
func (c *changes) tunnel(plan *Plan, host Host) (netlink.Link, error) {
	parent, err := netlink.LinkByName(host.Interface)
	if err != nil {
		return nil, fmt.Errorf("finding the interface %s: %w", host.Interface, err)
	}
	wanted := &netlink.Vxlan{
		LinkAttrs: netlink.LinkAttrs{Name: tunnelName, MTU: plan.MTU, HardwareAddr: plan.Hardware},
		VxlanId:   vxlanID, Port: vxlanPort, VtepDevIndex: parent.Attrs().Index, SrcAddr: host.Address.AsSlice(), Learning: false,
	}
	found, err := netlink.LinkByName(tunnelName)
	switch {
	case err == nil && sameTunnel(found, wanted):
	case err == nil:
		if err := netlink.LinkDel(found); err != nil {
			return nil, fmt.Errorf("removing the old device %s: %w", tunnelName, err)
		}
		fallthrough
	case errors.As(err, &netlink.LinkNotFoundError{}):
		if err := netlink.LinkAdd(wanted); err != nil {
			return nil, fmt.Errorf("making the device %s: %w", tunnelName, err)
		}
		c.any = true
		if found, err = netlink.LinkByName(tunnelName); err != nil {
			return nil, fmt.Errorf("finding the device %s: %w", tunnelName, err)
		}
	default:
		return nil, fmt.Errorf("finding the device %s: %w", tunnelName, err)
	}
	if err := c.ends(plan, found); err != nil {
		return nil, err
	}
	if found.Attrs().Flags&net.FlagUp == 0 {
		if err := netlink.LinkSetUp(found); err != nil {
			return nil, fmt.Errorf("switching %s on: %w", tunnelName, err)
		}
		c.any = true
	}
	return found, nil
}

// ends gives the tunnel the first address of each of the node's CIDRs, and takes others away.
func (c *changes) ends(plan *Plan, tunnel netlink.Link) error {
	missing := map[netip.Addr]bool{}
	for _, cidr := range plan.CIDRs {
		missing[cidr.Addr()] = true
	}
	err := c.oldAddresses(tunnel, func(ip netip.Addr) bool {
		_, wanted := missing[ip]
		missing[ip] = missing[ip] && !wanted
		return wanted
	})
	if err != nil {
		return err
	}
	for ip, add := range missing {
		if !add {
			continue
		}
		address := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(ip, ip.BitLen())), Flags: unix.IFA_F_NODAD}
		if err := netlink.AddrReplace(tunnel, address); err != nil {
			return fmt.Errorf("giving %s the address %s: %w", tunnelName, ip, err)
		}
		c.any = true
	}
	return nil
}

func sameTunnel(found netlink.Link, wanted *netlink.Vxlan) bool {
	vxlan, ok := found.(*netlink.Vxlan)
	return ok && vxlan.VxlanId == wanted.VxlanId && vxlan.Port == wanted.Port && vxlan.VtepDevIndex == wanted.VtepDevIndex &&
		vxlan.SrcAddr.Equal(wanted.SrcAddr) && vxlan.MTU == wanted.MTU && vxlan.HardwareAddr.String() == wanted.HardwareAddr.String()
}

func (c *changes) noTunnel() error {
	link, err := netlink.LinkByName(tunnelName)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if err != nil {
		return fmt.Errorf("removing the device %s: %w", tunnelName, err)
	}
	c.any = true
	return nil
}

// ipNet converts a prefix.
func ipNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
}
