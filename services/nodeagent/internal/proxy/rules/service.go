package rules

import (
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	netutils "k8s.io/utils/net"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

// labelServiceProxyName hands a Service to another proxy.
const labelServiceProxyName = "service.kubernetes.io/service-proxy-name"

// The bounds of session affinity's timeout, as the API has them, and its default.
const (
	minSticky     = time.Second
	maxSticky     = 24 * time.Hour
	defaultSticky = 3 * time.Hour
)

// Proxied reports whether a Service gets rules: it has a cluster IP, and no label that hands it to
// another proxy.
func Proxied(s *corev1.Service) bool {
	return s.Spec.ClusterIP != corev1.ClusterIPNone && s.Spec.ClusterIP != "" &&
		s.Spec.Type != corev1.ServiceTypeExternalName && !foreign(s.Labels)
}

// address is an address where a Service accepts traffic from outside.
type address struct {
	addr netip.Addr
	rank ruleset.Rank
}

// service is what the ports of a Service share, for one family.
type service struct {
	clusterIP netip.Addr
	externals []address
	// ranges restricts the sources of load balanced traffic; nil for no restriction.
	ranges []netip.Prefix
	// sticky is the timeout of session affinity; 0 without it.
	sticky                       time.Duration
	internalLocal, externalLocal bool
	healthPort                   uint16
}

// parseService returns a Service's fields for a family. It reports false if the Service has no
// cluster IP of the family. It adds to refused.
func parseService(f ruleset.Family, s *corev1.Service, refused *refusals) (*service, bool) {
	p := &service{
		clusterIP:     clusterIP(f, s),
		internalLocal: s.Spec.InternalTrafficPolicy != nil && *s.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal,
		externalLocal: s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal && acceptsExternal(s),
	}
	if !p.clusterIP.IsValid() {
		return nil, false
	}
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && p.externalLocal {
		p.healthPort = portNumber(s.Spec.HealthCheckNodePort)
	}
	if s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		p.sticky = sticky(s.Spec.SessionAffinityConfig)
	}
	seen := make(map[netip.Addr]bool)
	add := func(text string, rank ruleset.Rank) {
		addr, ok := parseAddr(text)
		if !ok || !f.Is(addr) || seen[addr] {
			return
		}
		seen[addr] = true
		if why := special(addr); why != "" {
			refused.add("", ReasonAddressRefused, "external address %s is %s", addr, why)
			return
		}
		p.externals = append(p.externals, address{addr, rank})
	}
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		if ingress.IPMode == nil || *ingress.IPMode == corev1.LoadBalancerIPModeVIP {
			add(ingress.IP, ruleset.LoadBalanced)
		}
	}
	for _, external := range s.Spec.ExternalIPs {
		add(external, ruleset.External)
	}
	p.ranges = sourceRanges(f, s.Spec.LoadBalancerSourceRanges, refused)
	return p, true
}

// acceptsExternal reports whether a Service has any external destination, so that its external
// traffic policy counts.
func acceptsExternal(s *corev1.Service) bool {
	switch s.Spec.Type {
	case corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
		return true
	}
	return len(s.Spec.ExternalIPs) > 0
}

func clusterIP(f ruleset.Family, s *corev1.Service) netip.Addr {
	candidates := s.Spec.ClusterIPs
	if len(candidates) == 0 {
		candidates = []string{s.Spec.ClusterIP}
	}
	for _, candidate := range candidates {
		if addr, ok := parseAddr(candidate); ok && f.Is(addr) && special(addr) == "" {
			return addr
		}
	}
	return netip.Addr{}
}

func sticky(config *corev1.SessionAffinityConfig) time.Duration {
	if config == nil || config.ClientIP == nil || config.ClientIP.TimeoutSeconds == nil {
		return defaultSticky
	}
	return min(max(time.Duration(*config.ClientIP.TimeoutSeconds)*time.Second, minSticky), maxSticky)
}

// sourceRanges returns the ranges of a family; nil when all sources are admitted. Ranges beyond the
// bound admit nothing.
func sourceRanges(f ruleset.Family, texts []string, refused *refusals) []netip.Prefix {
	var ranges []netip.Prefix
	for _, text := range texts {
		_, parsed, err := netutils.ParseCIDRSloppy(strings.TrimSpace(text))
		if err != nil {
			continue
		}
		addr, _ := netip.AddrFromSlice(parsed.IP)
		bits, _ := parsed.Mask.Size()
		if !f.Is(addr) {
			continue
		}
		if bits == 0 {
			return nil
		}
		ranges = append(ranges, netip.PrefixFrom(addr, bits).Masked())
	}
	if len(ranges) > maxSourceRanges {
		refused.add("", ReasonTooManyRanges, "of %d load balancer source ranges only %d admit traffic", len(ranges), maxSourceRanges)
		ranges = ranges[:maxSourceRanges]
	}
	return ranges
}

func portNumber(port int32) uint16 {
	if port < 0 || port > 65535 {
		return 0
	}
	return uint16(port)
}

// port is a port of a Service, for one family.
type port struct {
	*service
	key      portKey
	number   uint16
	nodePort uint16
}

// external reports whether the port accepts traffic at anything but the cluster IP.
func (p *port) external() bool { return p.nodePort != 0 || len(p.externals) > 0 }

// usesCluster reports whether the port ever sends traffic by policy Cluster. With external traffic it
// does whatever the policy says, since pods and the node itself are not subject to it.
func (p *port) usesCluster() bool { return !p.internalLocal || p.external() }

// usesLocal reports whether the port ever sends traffic by policy Local.
func (p *port) usesLocal() bool { return p.internalLocal || p.externalLocal && p.external() }
