package podtemplate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// RenamedLabels returns the deprecated node labels, with the text of the warning.
func RenamedLabels() map[string]string {
	return map[string]string{
		"beta.kubernetes.io/arch": "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
		"beta.kubernetes.io/os":   "deprecated since v1.14; use \"kubernetes.io/os\" instead",

		corev1.LabelFailureDomainBetaRegion: "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
		corev1.LabelFailureDomainBetaZone:   "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
		corev1.LabelInstanceType:            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
	}
}

// renamedLabel returns the warning for a deprecated node label; empty for any other label.
func renamedLabel(key string) string {
	since, name := "v1.17", ""
	switch key {
	case "beta.kubernetes.io/arch":
		since, name = "v1.14", corev1.LabelArchStable
	case "beta.kubernetes.io/os":
		since, name = "v1.14", corev1.LabelOSStable
	case corev1.LabelFailureDomainBetaRegion:
		name = corev1.LabelTopologyRegion
	case corev1.LabelFailureDomainBetaZone:
		name = corev1.LabelTopologyZone
	case corev1.LabelInstanceType:
		name = corev1.LabelInstanceTypeStable
	default:
		return ""
	}
	return fmt.Sprintf("deprecated since %s; use %q instead", since, name)
}
