package podspec

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestSpecNames checks the fields that name other objects, and the pod on its network.
func TestSpecNames(t *testing.T) {
	checkExactly(t, []refusal{
		{"host names and aliases", func(p *corev1.Pod) {
			p.Spec.Hostname, p.Spec.Subdomain, p.Spec.HostnameOverride = "a", "b", new(strings.Repeat("c", 60)+".c.c")
			p.Spec.HostAliases = []corev1.HostAlias{{IP: "127.0.0.1", Hostnames: []string{"a.b"}}}
			p.Spec.PriorityClassName, p.Spec.RuntimeClassName = "a.b", new("a.b")
		}, nil},
		{"a host name of 65 characters, besides others", func(p *corev1.Pod) {
			p.Spec.HostnameOverride, p.Spec.HostNetwork, p.Spec.SetHostnameAsFQDN = new(strings.Repeat("c", 60)+".c.cc"), true, new(true)
		}, []string{
			"spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true",
			"spec.hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true",
			"spec.hostnameOverride: Too long: may not be more than 64 bytes",
		}},
		{"bad names", func(p *corev1.Pod) {
			p.Spec.ServiceAccountName, p.Spec.PriorityClassName, p.Spec.RuntimeClassName, p.Spec.Subdomain = "A", "B", new("C"), "D"
			p.Spec.HostAliases = []corev1.HostAlias{{IP: "x", Hostnames: []string{"a", "E"}}}
		}, []string{
			`spec.serviceAccountName: Invalid value: "A": ` + badSubdomain, `spec.priorityClassName: Invalid value: "B": ` + badSubdomain,
			`spec.runtimeClassName: Invalid value: "C": ` + badSubdomain, `spec.subdomain: Invalid value: "D": ` + badLabel,
			`spec.hostAliases[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`,
			`spec.hostAliases[0].hostnames[1]: Invalid value: "E": ` + badSubdomain,
		}},
		{"gates", func(p *corev1.Pod) {
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "a b"}}
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a"}, {Name: "a"}, {Name: "b c"}}
		}, []string{
			`spec.readinessGates[0].conditionType: Invalid value: "a b": ` + badKey,
			`spec.schedulingGates[1]: Duplicate value: "a"`, `spec.schedulingGates[2]: Invalid value: "b c": ` + badKey,
		}},
		{"too long a time", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(1 << 31)) }, []string{
			"spec.activeDeadlineSeconds: Invalid value: 2147483648: must be between 1 and 2147483647, inclusive",
		}},
		{"the longest time, no time", func(p *corev1.Pod) {
			p.Spec.ActiveDeadlineSeconds, p.Spec.TerminationGracePeriodSeconds = new(int64(1<<31-1)), new(int64(0))
		}, nil},
		{"preemption", func(p *corev1.Pod) { p.Spec.PreemptionPolicy = new(corev1.PreemptionPolicy("Always")) }, []string{
			`spec.preemptionPolicy: Unsupported value: "Always": supported values: "PreemptLowerPriority", "Never"`,
		}},
	})
}
