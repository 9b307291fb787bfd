package podspec

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestDNS checks the settings of name resolution at their bounds.
func TestDNS(t *testing.T) {
	config := func(policy corev1.DNSPolicy, c corev1.PodDNSConfig) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.DNSPolicy, p.Spec.DNSConfig = policy, &c }
	}
	const at = "spec.dnsConfig"
	search := strings.Repeat(strings.Repeat("a", 63)+".", 3) + strings.Repeat("a", 63) // 255 characters are too many for a name.
	fits := strings.Repeat(strings.Repeat("a", 49)+".", 5)[:249]                       // Eight with spaces have 2,000.
	checkExactly(t, []refusal{
		{"everything", config(corev1.DNSNone, corev1.PodDNSConfig{
			Nameservers: []string{"10.0.0.1", "::1", "2001:DB8::1"}, Searches: []string{".", "a_b.c.", "d"}, Options: []corev1.PodDNSConfigOption{{Name: "a"}},
		}), nil},
		{"no server", config(corev1.DNSNone, corev1.PodDNSConfig{Options: []corev1.PodDNSConfigOption{{}}}), []string{
			at + ".nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None",
		}},
		{"four servers, one of them bad", config(corev1.DNSDefault, corev1.PodDNSConfig{Nameservers: []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "x"}}), []string{
			at + `.nameservers: Invalid value: ["10.0.0.1","10.0.0.2","10.0.0.3","x"]: must not have more than 3 nameservers`,
			at + `.nameservers[3]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`,
		}},
		{"32 searches", config(corev1.DNSDefault, corev1.PodDNSConfig{Searches: strings.Split(strings.Repeat("a ", 31)+"a", " ")}), nil},
		{"33 searches", config(corev1.DNSDefault, corev1.PodDNSConfig{Searches: strings.Split(strings.Repeat("a ", 32)+"a", " ")}), []string{
			at + `.searches: Invalid value: ["` + strings.Repeat(`a","`, 32) + `a"]: must not have more than 32 search paths`,
		}},
		{"2,048 characters of searches", config(corev1.DNSDefault, corev1.PodDNSConfig{
			Searches: append(strings.Split(strings.Repeat(fits+" ", 7)+fits, " "), strings.Repeat("b", 48)),
		}), nil},
		{"2,049 characters of searches", config(corev1.DNSDefault, corev1.PodDNSConfig{
			Searches: append(strings.Split(strings.Repeat(fits+" ", 7)+fits, " "), strings.Repeat("b", 49)),
		}), []string{
			at + `.searches: Invalid value: ["` + strings.Repeat(fits+`","`, 8) + strings.Repeat("b", 49) +
				`"]: must not have more than 2048 characters (including spaces) in the search list`,
		}},
		{"a search too long", config(corev1.DNSDefault, corev1.PodDNSConfig{Searches: []string{search}}), []string{
			at + `.searches[0]: Invalid value: "` + search + `": must be no more than 253 characters`,
		}},
		{"an option without a name", config(corev1.DNSClusterFirstWithHostNet, corev1.PodDNSConfig{Options: []corev1.PodDNSConfigOption{{Value: new("a")}}}), []string{
			at + ".options[0]: Required value: must not be empty",
		}},
		{"an unknown policy", config("Cluster", corev1.PodDNSConfig{}), []string{
			`spec.dnsPolicy: Unsupported value: "Cluster": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"`,
		}},
	})
}
