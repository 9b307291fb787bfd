package noderestriction

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// foreignLabels returns, sorted, the labels that differ and that a node must not write: those that
// steer pods to nodes.
func foreignLabels(now, before map[string]string) []string {
	var foreign []string
	differs := func(a, b map[string]string) {
		for key, value := range a {
			if other, ok := b[key]; (!ok || other != value) && isForeign(key) && !slices.Contains(foreign, key) {
				foreign = append(foreign, key)
			}
		}
	}
	differs(now, before)
	differs(before, now)
	slices.Sort(foreign)
	return foreign
}

func isForeign(label string) bool {
	prefix, _, ok := strings.Cut(label, "/")
	if !ok {
		return false
	}
	within := func(domains ...string) bool {
		return slices.ContainsFunc(domains, func(d string) bool { return prefix == d || strings.HasSuffix(prefix, "."+d) })
	}
	return within(corev1.LabelNamespaceNodeRestriction) ||
		within("kubernetes.io", "k8s.io") && !within("kubelet.kubernetes.io", "node.kubernetes.io") && !isNodesOwn(label)
}

// isNodesOwn reports whether a label is one of those by which a node describes itself.
func isNodesOwn(label string) bool {
	switch label {
	case corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone,
		corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceType, corev1.LabelInstanceTypeStable, corev1.LabelOSStable,
		corev1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch":
		return true
	}
	return false
}
