package network

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func service(change func(*corev1.ServiceSpec)) *corev1.Service {
	s := &corev1.Service{Spec: corev1.ServiceSpec{
		ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
		IPFamilyPolicy: new(corev1.IPFamilyPolicySingleStack),
	}}
	change(&s.Spec)
	return s
}

func unchanged(*corev1.ServiceSpec) {}

func dual(s *corev1.ServiceSpec) {
	s.ClusterIPs, s.IPFamilies = []string{"10.0.0.1", "fd00::1"}, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	s.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
}

func ips(ips ...string) func(*corev1.ServiceSpec) {
	return func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = ips[0], ips }
}

func TestServiceIPs(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*corev1.ServiceSpec)
		want   []string
	}{
		{"one family", unchanged, nil},
		{"two families", dual, nil},
		{"headless", ips("None"), nil},
		{"external name", func(s *corev1.ServiceSpec) { s.Type, s.ClusterIPs = corev1.ServiceTypeExternalName, []string{"x"} }, nil},
		{"no first address", func(s *corev1.ServiceSpec) { s.ClusterIP = "" }, []string{"must be empty when `clusterIP` is not specified"}},
		{"only the first address", func(s *corev1.ServiceSpec) { s.ClusterIPs = nil }, []string{"spec.clusterIPs: Required value"}},
		{"another first address", func(s *corev1.ServiceSpec) { s.ClusterIP = "10.0.0.2" }, []string{"first value must match `clusterIP`"}},
		{"headless with an address", ips("None", "10.0.0.1"), []string{"'None' must be the first and only value"}},
		{"headless at last", ips("10.0.0.1", "None"), []string{`spec.clusterIPs[1]: Invalid value: "None"`}},
		{"three addresses", ips("10.0.0.1", "fd00::1", "10.0.0.2"), []string{"may only hold up to 2 values"}},
		{"two of a family", ips("10.0.0.1", "10.0.0.2"), []string{"may specify no more than one IP for each IP family"}},
		{"wrong family", ips("fd00::1"), []string{"spec.clusterIPs[0]: Invalid value: \"fd00::1\": expected an IPv4 value as indicated by `ipFamilies[0]`"}},
		{"unknown family", func(s *corev1.ServiceSpec) { s.IPFamilies[0] = "IPv5" }, []string{`spec.ipFamilies[0]: Unsupported value: "IPv5"`}},
		{"family twice", func(s *corev1.ServiceSpec) { s.IPFamilies = append(s.IPFamilies, s.IPFamilies[0]) }, []string{`spec.ipFamilies[1]: Duplicate value: "IPv4"`}},
		{"unknown policy", func(s *corev1.ServiceSpec) { s.IPFamilyPolicy = new(corev1.IPFamilyPolicy("x")) }, []string{`spec.ipFamilyPolicy: Unsupported value: "x"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			errortest.Contain(t, ServiceIPs(service(tc.change), &corev1.Service{}), tc.want...)
		})
	}
}

func TestUpdatesOfServiceIPs(t *testing.T) {
	single := new(corev1.IPFamilyPolicySingleStack)
	for _, tc := range []struct {
		name          string
		now, before   func(*corev1.ServiceSpec)
		ips, families []string
	}{
		{"as before", unchanged, unchanged, nil, nil},
		{"second family", dual, unchanged, nil, nil},
		{"released family", unchanged, dual, nil, nil},
		{"released without the policy", func(s *corev1.ServiceSpec) { s.IPFamilyPolicy = nil }, dual,
			[]string{"must be set to 'SingleStack' when releasing the secondary clusterIP"}, []string{"must be set to 'SingleStack' when releasing the secondary ipFamily"}},
		{"another address", ips("10.0.0.2"), unchanged, []string{"spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set"}, nil},
		{"another second address", func(s *corev1.ServiceSpec) { dual(s); s.ClusterIPs[1] = "fd00::2" }, dual, []string{"spec.clusterIPs[1]: "}, nil},
		{"no address", func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs, s.IPFamilies = "", nil, nil }, unchanged,
			[]string{"primary clusterIP can not be unset"}, []string{"primary ipFamily can not be unset"}},
		{"other first", func(s *corev1.ServiceSpec) {
			s.ClusterIPs, s.IPFamilies, s.IPFamilyPolicy = []string{"fd00::1"}, []corev1.IPFamily{corev1.IPv6Protocol}, single
		}, dual, []string{"spec.clusterIPs[0]: ", "may not change once set"}, []string{"spec.ipFamilies[0]: ", "may not change once set"}},
		{"other family", func(s *corev1.ServiceSpec) { s.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }, unchanged, nil, []string{"may not change once set"}},
		{"from an external name", unchanged, func(s *corev1.ServiceSpec) { s.Type, s.ClusterIPs = corev1.ServiceTypeExternalName, []string{"x"} }, nil, nil},
		{"headless", ips("None"), ips("None"), nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			errortest.Contain(t, ClusterIPsUpdate(service(tc.now), service(tc.before)), tc.ips...)
			errortest.Contain(t, IpFamiliesUpdate(service(tc.now), service(tc.before)), tc.families...)
		})
	}
}
