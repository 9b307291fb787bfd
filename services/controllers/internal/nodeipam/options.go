package nodeipam

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"

	netutils "k8s.io/utils/net"
)

const (
	// DefaultMaskSizeIPv4 and DefaultMaskSizeIPv6 are the prefix lengths of nodes' ranges, in bits
	// (Kubernetes, --node-cidr-mask-size-ipv4 and -ipv6).
	DefaultMaskSizeIPv4 = 24
	DefaultMaskSizeIPv6 = 64
	// maxSpread bounds how many bits longer the prefix of a node may be than an IPv6 cluster's, for the
	// map of used ranges has a bit for each (Kubernetes, clusterSubnetMaxDiff). An IPv4 cluster's map
	// has at most 2^24 bits, for its prefix has at least 8.
	maxSpread = 16
	// minBits is the shortest prefix of an IPv4 cluster, in bits.
	minBits = 8
)

// Options say which ranges nodes get. The zero value gives none.
type Options struct {
	// Allocate turns the controller on.
	Allocate bool
	// ClusterCIDRs are the ranges of all pods: one, or one of each family.
	ClusterCIDRs []string
	// ServiceCIDRs are the ranges of Services, at most one of each family; nodes get no range within.
	ServiceCIDRs []string
	// MaskSize is the prefix length of a node's range, in bits, if there is one cluster range; else, and
	// if it is 0, MaskSizeIPv4 and MaskSizeIPv6 are; 0 means the defaults.
	MaskSize, MaskSizeIPv4, MaskSizeIPv6 int
}

// Check returns everything that is wrong. Options that do not allocate are right.
func (o Options) Check() error {
	_, _, err := o.parse()
	return err
}

// spec is a cluster range, and the prefix length of nodes' ranges within.
type spec struct {
	cluster netip.Prefix
	bits    int
}

// parse returns the cluster's ranges and those of Services; none unless Allocate is set.
func (o Options) parse() (specs []spec, services []netip.Prefix, err error) {
	if !o.Allocate {
		return nil, nil, nil
	}
	if len(o.ClusterCIDRs) == 0 {
		return nil, nil, errors.New("--cluster-cidr must be set if --allocate-node-cidrs is")
	}
	clusters, err := prefixes("--cluster-cidr", o.ClusterCIDRs)
	if err != nil {
		return nil, nil, err
	}
	services, err = prefixes("--service-cluster-ip-range", o.ServiceCIDRs)
	if err != nil {
		return nil, nil, err
	}
	if err := o.checkMasks(clusters); err != nil {
		return nil, nil, err
	}
	for _, cluster := range clusters {
		bits := o.bits(cluster, len(clusters) == 1)
		switch {
		case bits < cluster.Bits() || bits > cluster.Addr().BitLen():
			return nil, nil, fmt.Errorf("the mask size of nodes is %d, must be from %d to %d in the cluster CIDR %s",
				bits, cluster.Bits(), cluster.Addr().BitLen(), cluster)
		case cluster.Addr().Is6() && bits-cluster.Bits() > maxSpread:
			return nil, nil, fmt.Errorf("the mask size of nodes is %d, must be at most %d in the cluster CIDR %s",
				bits, cluster.Bits()+maxSpread, cluster)
		case cluster.Addr().Is4() && cluster.Bits() < minBits:
			return nil, nil, fmt.Errorf("the cluster CIDR is %s, its prefix must have at least %d bits", cluster, minBits)
		}
		specs = append(specs, spec{cluster, bits})
	}
	return specs, services, nil
}

// bits returns the prefix length of nodes' ranges in a cluster's range, which may be the only one.
func (o Options) bits(cluster netip.Prefix, only bool) int {
	if only && o.MaskSize != 0 {
		return o.MaskSize
	}
	if cluster.Addr().Is6() {
		return cmp.Or(o.MaskSizeIPv6, DefaultMaskSizeIPv6)
	}
	return cmp.Or(o.MaskSizeIPv4, DefaultMaskSizeIPv4)
}

// checkMasks returns an error for mask sizes that contradict each other or the cluster's ranges.
func (o Options) checkMasks(clusters []netip.Prefix) error {
	switch {
	case len(clusters) > 1 && o.MaskSize != 0:
		return errors.New("--node-cidr-mask-size must not be set with two cluster CIDRs: set --node-cidr-mask-size-ipv4 and -ipv6")
	case o.MaskSize != 0 && (o.MaskSizeIPv4 != 0 || o.MaskSizeIPv6 != 0):
		return errors.New("--node-cidr-mask-size must not be set together with --node-cidr-mask-size-ipv4 or -ipv6")
	case len(clusters) == 1 && clusters[0].Addr().Is6() && o.MaskSizeIPv4 != 0:
		return errors.New("--node-cidr-mask-size-ipv4 must not be set with an IPv6 cluster CIDR alone")
	case len(clusters) == 1 && clusters[0].Addr().Is4() && o.MaskSizeIPv6 != 0:
		return errors.New("--node-cidr-mask-size-ipv6 must not be set with an IPv4 cluster CIDR alone")
	}
	return nil
}

// prefixes parses the value of a flag: at most one range of each family.
func prefixes(flag string, texts []string) ([]netip.Prefix, error) {
	var parsed []netip.Prefix
	for _, text := range texts {
		prefix, err := parsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		parsed = append(parsed, prefix)
	}
	if len(parsed) > 2 || len(parsed) == 2 && parsed[0].Addr().Is4() == parsed[1].Addr().Is4() {
		return nil, fmt.Errorf("%s has the CIDRs %v, must have at most one of each IP family", flag, texts)
	}
	return parsed, nil
}

// parsePrefix parses a range as Kubernetes does, which allows leading zeros.
func parsePrefix(text string) (netip.Prefix, error) {
	_, network, err := netutils.ParseCIDRSloppy(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("parsing the CIDR %q: %w", text, err)
	}
	addr, ok := netip.AddrFromSlice(network.IP)
	if !ok {
		return netip.Prefix{}, fmt.Errorf("parsing the CIDR %q: it has no address", text)
	}
	bits, _ := network.Mask.Size()
	return netip.PrefixFrom(addr, bits).Masked(), nil
}
