package dualstack_test

import (
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFamiliesOfServices(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t, registrytest.DualStack)
	policy := func(policy corev1.IPFamilyPolicy) *corev1.IPFamilyPolicy { return &policy }
	single, prefer, require := policy(corev1.IPFamilyPolicySingleStack), policy(corev1.IPFamilyPolicyPreferDualStack), policy(corev1.IPFamilyPolicyRequireDualStack)
	type families = []corev1.IPFamily
	four, six, both, reverse := families{"IPv4"}, families{"IPv6"}, families{"IPv4", "IPv6"}, families{"IPv6", "IPv4"}
	for _, tc := range []struct {
		name     string
		spec     func(*corev1.ServiceSpec)
		policy   corev1.IPFamilyPolicy
		families families
	}{
		{"nothing", func(*corev1.ServiceSpec) {}, *single, four},
		{"single", func(s *corev1.ServiceSpec) { s.IPFamilyPolicy = single }, *single, four},
		{"single six", func(s *corev1.ServiceSpec) { s.IPFamilies = six }, *single, six},
		{"six by its address", func(s *corev1.ServiceSpec) { s.ClusterIP = "fd00:7::42" }, *single, six},
		{"prefer", func(s *corev1.ServiceSpec) { s.IPFamilyPolicy = prefer }, *prefer, both},
		{"require", func(s *corev1.ServiceSpec) { s.IPFamilyPolicy = require }, *require, both},
		{"require six first", func(s *corev1.ServiceSpec) { s.IPFamilyPolicy, s.IPFamilies = require, six }, *require, reverse},
		{"require, one address", func(s *corev1.ServiceSpec) { s.IPFamilyPolicy, s.ClusterIP = require, "fd00:7::43" }, *require, reverse},
		{"two addresses", func(s *corev1.ServiceSpec) {
			// from the lower parts of the ranges: the services above have random addresses of the
			// upper parts
			s.IPFamilyPolicy, s.ClusterIP, s.ClusterIPs = prefer, "10.7.0.14", []string{"10.7.0.14", "fd00:7::44"}
		}, *prefer, both},
		{"headless", func(s *corev1.ServiceSpec) { s.ClusterIP, s.Selector = "None", map[string]string{"a": "b"} }, *single, four},
		{"headless, require", func(s *corev1.ServiceSpec) {
			s.ClusterIP, s.Selector, s.IPFamilyPolicy = "None", map[string]string{"a": "b"}, require
		}, *require, both},
		{"headless without a selector", func(s *corev1.ServiceSpec) { s.ClusterIP = "None" }, *require, both},
		{"headless without a selector, single", func(s *corev1.ServiceSpec) { s.ClusterIP, s.IPFamilyPolicy = "None", single }, *single, four},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := registrytest.Service(strings.ReplaceAll(strings.ReplaceAll("s-"+tc.name, " ", "-"), ",", ""), tc.spec)
			dry, err := registrytest.Of[*corev1.Service](w).Create(t.Context(), "default", s.DeepCopy(), metav1.CreateOptions{DryRun: []string{"All"}})
			if err != nil {
				t.Fatalf("a dry run: %v", err)
			}
			before := w.Addresses()
			spec := registrytest.Create(w, "default", s).Spec
			if *spec.IPFamilyPolicy != tc.policy || !slices.Equal(spec.IPFamilies, tc.families) {
				t.Errorf("the service is %s with %v, want %s with %v", *spec.IPFamilyPolicy, spec.IPFamilies, tc.policy, tc.families)
			}
			if headless := spec.ClusterIP == "None"; headless {
				if !slices.Equal(spec.ClusterIPs, []string{"None"}) {
					t.Errorf("the addresses are %v", spec.ClusterIPs)
				}
				return
			}
			if len(spec.ClusterIPs) != len(tc.families) || spec.ClusterIP != spec.ClusterIPs[0] || len(w.Addresses()) != len(before)+len(tc.families) {
				t.Errorf("the addresses are %v and %v; %d were recorded, now %d", spec.ClusterIP, spec.ClusterIPs, len(before), len(w.Addresses()))
			}
			for i, family := range tc.families {
				registrytest.InRange(t, map[corev1.IPFamily]string{"IPv4": "10.7.0.0/24", "IPv6": "fd00:7::/112"}[family], spec.ClusterIPs[i], dry.(*corev1.Service).Spec.ClusterIPs[i])
			}
		})
	}
}

func TestFamiliesThatAreRefused(t *testing.T) {
	t.Parallel()
	single := registrytest.New(t)
	dual := registrytest.New(t, registrytest.DualStack)
	taken := registrytest.Create(dual, "default", registrytest.Service("taken", func(s *corev1.ServiceSpec) { s.ClusterIP = "10.7.0.9" }))
	for _, tc := range []struct {
		name string
		w    *registrytest.World
		spec func(*corev1.ServiceSpec)
		want string
	}{
		{"two in a cluster of one", single, func(s *corev1.ServiceSpec) { s.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack) },
			`spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services`},
		{"the other family", single, func(s *corev1.ServiceSpec) { s.IPFamilies = []corev1.IPFamily{"IPv6"} }, `spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster`},
		{"an address of the other family", single, func(s *corev1.ServiceSpec) { s.ClusterIP = "fd00::1" }, `spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster`},
		{"single with two addresses", dual, func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "10.7.0.5", []string{"10.7.0.5", "fd00:7::5"} },
			`spec.ipFamilyPolicy: Invalid value: "SingleStack": must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified`},
		{"single with two families", dual, func(s *corev1.ServiceSpec) { s.IPFamilies = []corev1.IPFamily{"IPv4", "IPv6"} },
			`spec.ipFamilyPolicy: Invalid value: "SingleStack": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified`},
		{"the second is taken", dual, func(s *corev1.ServiceSpec) {
			s.IPFamilyPolicy, s.ClusterIP, s.ClusterIPs = new(corev1.IPFamilyPolicyRequireDualStack), "fd00:7::6", []string{"fd00:7::6", taken.Spec.ClusterIP}
		}, `spec.clusterIPs: Invalid value: ["fd00:7::6","10.7.0.9"]: failed to allocate IP 10.7.0.9: provided IP is already allocated`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.w.Addresses()
			for _, dryRun := range [][]string{{"All"}, nil} {
				_, err := registrytest.Of[*corev1.Service](tc.w).Create(t.Context(), "default", registrytest.Service("x", tc.spec), metav1.CreateOptions{DryRun: dryRun})
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v\nwant %s", err, tc.want)
				}
			}
			if after := tc.w.Addresses(); !slices.Equal(before, after) {
				t.Errorf("the addresses in use were %v, now %v", before, after)
			}
		})
	}
}

func TestServicesChangeTheirFamilies(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t, registrytest.DualStack)
	first := registrytest.Create(w, "default", registrytest.Service("s"))
	step := func(name string, change func(*corev1.ServiceSpec)) (*corev1.Service, error) {
		return registrytest.Update(w, "default", "s", "", func(s *corev1.Service) { change(&s.Spec) })
	}
	must := func(name string, change func(*corev1.ServiceSpec)) corev1.ServiceSpec {
		t.Helper()
		s, err := step(name, change)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		held := []string{}
		for _, ip := range s.Spec.ClusterIPs {
			if ip != "None" {
				held = append(held, ip)
			}
		}
		held = append(held, "10.7.0.1")
		slices.Sort(held)
		if got := w.Addresses(); !slices.Equal(got, held) {
			t.Errorf("%s: the addresses in use are %v, want %v", name, got, held)
		}
		return s.Spec
	}
	up := must("becoming dual", func(s *corev1.ServiceSpec) { s.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack) })
	if len(up.ClusterIPs) != 2 || up.ClusterIP != first.Spec.ClusterIP || up.ClusterIPs[0] != up.ClusterIP || !slices.Equal(up.IPFamilies, []corev1.IPFamily{"IPv4", "IPv6"}) {
		t.Errorf("the dual service is %+v", up)
	}
	if _, err := step("fewer", func(s *corev1.ServiceSpec) { s.ClusterIPs = s.ClusterIPs[:1] }); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "must be 'SingleStack' to release the secondary cluster IP") {
		t.Errorf("dropping an address alone: %v", err)
	}
	if _, err := step("fewer", func(s *corev1.ServiceSpec) { s.IPFamilies = s.IPFamilies[:1] }); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "must be 'SingleStack' to release the secondary IP family") {
		t.Errorf("dropping a family alone: %v", err)
	}
	if _, err := step("another", func(s *corev1.ServiceSpec) { s.ClusterIPs = []string{s.ClusterIP, "fd00:7::99"} }); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.clusterIPs[1]: Invalid value") {
		t.Errorf("another second address: %v", err)
	}
	same := must("the same manifest", func(s *corev1.ServiceSpec) {
		s.ClusterIP, s.ClusterIPs, s.IPFamilies, s.IPFamilyPolicy = "", nil, nil, nil
	})
	if !slices.Equal(same.ClusterIPs, up.ClusterIPs) || *same.IPFamilyPolicy != corev1.IPFamilyPolicyPreferDualStack || len(same.IPFamilies) != 2 {
		t.Errorf("after the same manifest again it is %+v", same)
	}
	down := must("becoming single", func(s *corev1.ServiceSpec) { s.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack) })
	if !slices.Equal(down.ClusterIPs, up.ClusterIPs[:1]) || !slices.Equal(down.IPFamilies, []corev1.IPFamily{"IPv4"}) {
		t.Errorf("the single service is %+v", down)
	}
	again := must("becoming dual with an address", func(s *corev1.ServiceSpec) {
		s.IPFamilyPolicy, s.ClusterIPs = new(corev1.IPFamilyPolicyRequireDualStack), []string{s.ClusterIP, "fd00:7::77"}
	})
	if again.ClusterIPs[1] != "fd00:7::77" || again.IPFamilies[1] != "IPv6" {
		t.Errorf("the dual service is %+v", again)
	}
	external := must("becoming external", func(s *corev1.ServiceSpec) { s.Type, s.ExternalName = corev1.ServiceTypeExternalName, "example.com" })
	if external.ClusterIP != "" || external.ClusterIPs != nil || external.IPFamilies != nil || external.IPFamilyPolicy != nil || external.InternalTrafficPolicy != nil {
		t.Errorf("the external service is %+v", external)
	}
	back := must("coming back", func(s *corev1.ServiceSpec) {
		s.Type, s.ExternalName, s.IPFamilyPolicy, s.IPFamilies = corev1.ServiceTypeClusterIP, "", new(corev1.IPFamilyPolicyRequireDualStack), []corev1.IPFamily{"IPv6"}
	})
	if len(back.ClusterIPs) != 2 || !slices.Equal(back.IPFamilies, []corev1.IPFamily{"IPv6", "IPv4"}) {
		t.Errorf("the service that came back is %+v", back)
	}
	_, err := step("external with an address", func(s *corev1.ServiceSpec) {
		s.Type, s.ExternalName, s.ClusterIP, s.ClusterIPs = corev1.ServiceTypeExternalName, "example.com", "10.7.0.50", []string{"10.7.0.50"}
	})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.clusterIPs: Forbidden: may not be set for ExternalName services") {
		t.Errorf("becoming external with another address: %v", err)
	}
}
