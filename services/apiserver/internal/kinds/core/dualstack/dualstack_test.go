package dualstack

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const (
	four, six                = corev1.IPv4Protocol, corev1.IPv6Protocol
	singly, prefer, required = corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack
)

var (
	onlyFour = Families{four}
	both     = Families{four, six}
)

// service returns a service with a policy ("" for none), addresses (clusterIP is the first) and
// families.
func service(policy corev1.IPFamilyPolicy, addresses string, families ...corev1.IPFamily) *corev1.Service {
	s := &corev1.Service{Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": "a"}, IPFamilies: families, ClusterIPs: strings.Fields(addresses),
	}}
	if policy != "" {
		s.Spec.IPFamilyPolicy = &policy
	}
	if len(s.Spec.ClusterIPs) > 0 {
		s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	}
	return s
}

func with(s *corev1.Service, change func(*corev1.ServiceSpec)) *corev1.Service {
	change(&s.Spec)
	return s
}

func noSelector(spec *corev1.ServiceSpec) { spec.Selector = nil }

func summary(s *corev1.Service) string {
	policy := corev1.IPFamilyPolicy("none")
	if s.Spec.IPFamilyPolicy != nil {
		policy = *s.Spec.IPFamilyPolicy
	}
	return fmt.Sprint(policy, " ", s.Spec.ClusterIPs, " ", s.Spec.IPFamilies)
}

func TestComplete(t *testing.T) {
	dual := func() *corev1.Service { return service(prefer, "10.0.0.1 fd00::1", four, six) }
	for _, tt := range []struct {
		name     string
		families Families
		now, old *corev1.Service
		want     string // the service, or the field and the detail of the only error
	}{
		{"nothing asked for", both, service("", ""), nil, "SingleStack [] [IPv4]"},
		{"the cluster's first family", Families{six, four}, service("", ""), nil, "SingleStack [] [IPv6]"},
		{"two preferred", both, service(prefer, ""), nil, "PreferDualStack [] [IPv4 IPv6]"},
		{"two preferred, one there", onlyFour, service(prefer, ""), nil, "PreferDualStack [] [IPv4]"},
		{"the second first", both, service(required, "", six), nil, "RequireDualStack [] [IPv6 IPv4]"},
		{"two required, one there", onlyFour, service(required, ""), nil, "spec.ipFamilyPolicy: this cluster is not configured for dual-stack services"},
		{"a family that is not there", onlyFour, service("", "", six), nil, "spec.ipFamilies[0]: not configured on this cluster"},
		{"an address decides", both, service("", "fd00::1"), nil, "SingleStack [fd00::1] [IPv6]"},
		{"only clusterIP", both, with(service("", "fd00::1"), func(s *corev1.ServiceSpec) { s.ClusterIPs = nil }), nil, "SingleStack [fd00::1] [IPv6]"},
		{"an address that is not there", onlyFour, service("", "fd00::1"), nil, "spec.clusterIPs[0]: IPv6 is not configured on this cluster"},
		{"two addresses without a policy", both, service("", "10.0.0.1 fd00::1"), nil, "spec.ipFamilyPolicy: must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified"},
		{"two families without a policy", both, service("", "", four, six), nil, "spec.ipFamilyPolicy: must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"},
		{"headless", onlyFour, service("", "None"), nil, "SingleStack [None] [IPv4]"},
		{"headless without a selector", onlyFour, with(service("", "None"), noSelector), nil, "RequireDualStack [None] [IPv4 IPv6]"},
		{"headless without a selector, a family that is not there", onlyFour, with(service("", "None", six), noSelector), nil, "RequireDualStack [None] [IPv6 IPv4]"},
		{"another host", both, with(service("", ""), func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeExternalName }), nil, "none [] []"},

		{"the same manifest again", both, service("", ""), dual(), "PreferDualStack [10.0.0.1 fd00::1] [IPv4 IPv6]"},
		{"one instead of two", both, service(singly, ""), dual(), "SingleStack [10.0.0.1] [IPv4]"},
		{"one instead of two, all else as read", both, service(singly, "10.0.0.1 fd00::1", four, six), dual(), "SingleStack [10.0.0.1] [IPv4]"},
		{"two instead of one", both, service(prefer, "10.0.0.1", four), service(singly, "10.0.0.1", four), "PreferDualStack [10.0.0.1] [IPv4 IPv6]"},
		{"a family dropped without the policy", both, service(prefer, "10.0.0.1 fd00::1", four), dual(), "spec.ipFamilyPolicy: must be 'SingleStack' to release the secondary IP family"},
		{"an address dropped without the policy", both, service(prefer, "10.0.0.1", four, six), dual(), "spec.ipFamilyPolicy: must be 'SingleStack' to release the secondary cluster IP"},
		{"the cluster has got a second family", both, service(prefer, "10.0.0.1", four), service(prefer, "10.0.0.1", four), "PreferDualStack [10.0.0.1] [IPv4]"},
		{"the cluster has lost the second family", onlyFour, dual(), dual(), "PreferDualStack [10.0.0.1 fd00::1] [IPv4 IPv6]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := tt.now.DeepCopy()
			errs := tt.families.Complete(tt.now, tt.old)
			got := summary(tt.now)
			if len(errs) > 0 {
				if got = errs[0].Field + ": " + errs[0].Detail; len(errs) > 1 {
					t.Errorf("also wrong: %v", errs[1:])
				}
				if !reflect.DeepEqual(tt.now, before) {
					t.Errorf("a refused service was changed to %+v", tt.now.Spec)
				}
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			once := tt.now.DeepCopy()
			if again := tt.families.Complete(tt.now, tt.old); !reflect.DeepEqual(tt.now, once) || fmt.Sprint(again) != fmt.Sprint(errs) {
				t.Errorf("a second time: %v, %+v", again, tt.now.Spec)
			}
		})
	}
}

// TestNodePortsAreKept checks that a manifest without node ports keeps those that the service was
// given, by the names of the ports, and that no two ports get the same.
func TestNodePortsAreKept(t *testing.T) {
	open := func(kind corev1.ServiceType, ports string) *corev1.Service {
		s := service(singly, "10.0.0.1", four)
		s.Spec.Type = kind
		for port := range strings.FieldsSeq(ports) {
			var p corev1.ServicePort
			if _, err := fmt.Sscanf(port, "%1s:%d", &p.Name, &p.NodePort); err != nil {
				t.Fatal(err)
			}
			s.Spec.Ports = append(s.Spec.Ports, p)
		}
		return s
	}
	for _, tt := range []struct {
		kind            corev1.ServiceType
		old, sent, want string
	}{
		{corev1.ServiceTypeNodePort, "a:30001 b:30002", "a:0 b:0", "a:30001 b:30002"},
		{corev1.ServiceTypeLoadBalancer, "a:30001 b:30002", "b:0 c:0", "b:30002 c:0"},
		{corev1.ServiceTypeNodePort, "a:30001", "a:30005", "a:30005"},
		{corev1.ServiceTypeNodePort, "a:30001 b:30002", "a:0 b:30001", "a:0 b:30001"},
		{corev1.ServiceTypeClusterIP, "a:30001", "a:0", "a:0"},
	} {
		now := open(tt.kind, tt.sent)
		if errs := both.Complete(now, open(corev1.ServiceTypeNodePort, tt.old)); len(errs) > 0 {
			t.Errorf("%s: %v", tt.sent, errs)
		}
		var got []string
		for _, p := range now.Spec.Ports {
			got = append(got, fmt.Sprintf("%s:%d", p.Name, p.NodePort))
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s %s after %s became %v, want %s", tt.kind, tt.sent, tt.old, got, tt.want)
		}
	}
}
