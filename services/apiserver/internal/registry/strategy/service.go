package strategy

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/garboard/garboard/services/apiserver/internal/defaults"
	"github.com/garboard/garboard/services/apiserver/internal/validation"
)

func service() *Strategy {
	return of[*corev1.Service]{
		Default: defaults.Service,
		Create: func(s *corev1.Service) {
			s.Status = corev1.ServiceStatus{}
			normalizeService(s)
		},
		Validate: validation.Service,
		Update: change[*corev1.Service]{
			Prepare: func(s, old *corev1.Service) {
				s.Status = *old.Status.DeepCopy()
				syncClusterIPs(s, old)
				keepAllocated(s, old)
				normalizeService(s)
			},
			Validate: validation.ServiceUpdate,
		},
		Subresources: map[string]change[*corev1.Service]{"status": {
			Prepare: func(s, old *corev1.Service) { s.Spec = *old.Spec.DeepCopy() },
		}},
		FieldLabels: []string{"spec.clusterIP", "spec.type"},
		Fields: func(s *corev1.Service) fields.Set {
			return fields.Set{"spec.clusterIP": s.Spec.ClusterIP, "spec.type": string(s.Spec.Type)}
		},
		ReturnDeleted: true,
	}.strategy()
}

// normalizeService brings the two spellings of the cluster IP together, drops what the type
// cannot have, and says the address family.
func normalizeService(s *corev1.Service) {
	spec := &s.Spec
	switch {
	case spec.ClusterIP != "" && len(spec.ClusterIPs) == 0:
		spec.ClusterIPs = []string{spec.ClusterIP}
	case spec.ClusterIP == "" && len(spec.ClusterIPs) > 0:
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	if spec.Type == corev1.ServiceTypeExternalName {
		spec.IPFamilies, spec.IPFamilyPolicy, spec.InternalTrafficPolicy = nil, nil, nil
		return
	}
	single := corev1.IPFamilyPolicySingleStack
	if spec.IPFamilyPolicy == nil {
		spec.IPFamilyPolicy = &single
	}
	if len(spec.IPFamilies) > 0 {
		return
	}
	family := corev1.IPv4Protocol
	if addr, err := netip.ParseAddr(spec.ClusterIP); err == nil && addr.Is6() {
		family = corev1.IPv6Protocol
	}
	spec.IPFamilies = []corev1.IPFamily{family}
}

// syncClusterIPs lets a client that knows only one spelling of the cluster IP change it.
func syncClusterIPs(s, old *corev1.Service) {
	now, before := &s.Spec, &old.Spec
	switch {
	case now.ClusterIP == "" && before.ClusterIP != "" && slices.Equal(now.ClusterIPs, before.ClusterIPs):
		now.ClusterIPs = nil
	case now.ClusterIP != before.ClusterIP && slices.Equal(now.ClusterIPs, before.ClusterIPs):
		now.ClusterIPs = nil
		if now.ClusterIP != "" {
			now.ClusterIPs = []string{now.ClusterIP}
		}
	}
}

// keepAllocated keeps the addresses and ports of old that an update leaves out but still
// needs, so that a plain `kubectl apply` does not lose them.
func keepAllocated(s, old *corev1.Service) {
	now, before := &s.Spec, &old.Spec
	if now.Type == corev1.ServiceTypeExternalName {
		// What a service of another type had goes with that type.
		if before.Type != now.Type && now.ClusterIP == before.ClusterIP {
			now.ClusterIP, now.ClusterIPs = "", nil
		}
		dropSameNodePorts(now, before)
		return
	}
	if before.Type != corev1.ServiceTypeExternalName && now.ClusterIP == "" && len(now.ClusterIPs) == 0 {
		now.ClusterIP, now.ClusterIPs = before.ClusterIP, slices.Clone(before.ClusterIPs)
		if len(now.IPFamilies) == 0 {
			now.IPFamilies = slices.Clone(before.IPFamilies)
		}
		if now.IPFamilyPolicy == nil {
			now.IPFamilyPolicy = before.IPFamilyPolicy
		}
	}
	if now.Type == corev1.ServiceTypeClusterIP {
		dropSameNodePorts(now, before)
		if before.Type != now.Type && now.ExternalTrafficPolicy == before.ExternalTrafficPolicy && len(now.ExternalIPs) == 0 {
			now.ExternalTrafficPolicy = ""
		}
		if before.Type == corev1.ServiceTypeLoadBalancer {
			now.AllocateLoadBalancerNodePorts = nil
		}
		return
	}
	keepNodePorts(now, before)
}

// dropSameNodePorts forgets node ports that an update only carries along.
func dropSameNodePorts(now, before *corev1.ServiceSpec) {
	if before.Type == now.Type {
		return
	}
	for i := range now.Ports {
		same := slices.ContainsFunc(before.Ports, func(p corev1.ServicePort) bool { return p.NodePort == now.Ports[i].NodePort })
		if same {
			now.Ports[i].NodePort = 0
		}
	}
}

func keepNodePorts(now, before *corev1.ServiceSpec) {
	used := map[int32]bool{}
	for _, port := range now.Ports {
		used[port.NodePort] = true
	}
	for i := range now.Ports {
		port := &now.Ports[i]
		if port.NodePort != 0 {
			continue
		}
		for _, had := range before.Ports {
			if had.Port == port.Port && had.Protocol == port.Protocol && had.NodePort != 0 && !used[had.NodePort] {
				port.NodePort = had.NodePort
				used[had.NodePort] = true
				break
			}
		}
	}
}
