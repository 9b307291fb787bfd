package nodeagent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// ownDomains are the Kubernetes label domains in which a node may label itself. ownLabels are the
// labels outside those domains by which a node describes itself (k8s.io/kubelet,
// pkg/apis.IsKubeletLabel). The apiserver rejects a Node that sets others on itself, since labels
// steer pods.
func ownDomains() []string { return []string{"kubelet.kubernetes.io", "node.kubernetes.io"} }

func ownLabels() []string {
	return []string{
		corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
		corev1.LabelInstanceType, corev1.LabelInstanceTypeStable, corev1.LabelOSStable, corev1.LabelArchStable,
		"beta.kubernetes.io/os", "beta.kubernetes.io/arch",
	}
}

// checkLabels returns an error for each invalid label and for the labels that a node must not set,
// in the kubelet's words.
func checkLabels(labels map[string]string) []error {
	var faults []error
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(labels[key])...)
		if len(problems) > 0 {
			faults = append(faults, fmt.Errorf("invalid node labels: '%s=%s': %s", key, labels[key], strings.Join(problems, "; ")))
			continue
		}
		domain, _, qualified := strings.Cut(key, "/")
		if qualified && within(domain, "kubernetes.io", "k8s.io") && !within(domain, ownDomains()...) && !slices.Contains(ownLabels(), key) {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) > 0 {
		allowed := slices.Sorted(slices.Values(ownLabels()))
		faults = append(faults, fmt.Errorf("unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: %v\n"+
			"--node-labels in the 'kubernetes.io' namespace must begin with an allowed prefix (%s) or be in the specifically allowed set (%s)",
			unknown, strings.Join(ownDomains(), ", "), strings.Join(allowed, ", ")))
	}
	return faults
}

// within reports whether domain is one of domains or a subdomain of one.
func within(domain string, domains ...string) bool {
	return slices.ContainsFunc(domains, func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) })
}
