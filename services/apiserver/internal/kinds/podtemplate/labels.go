package podtemplate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// RenamedLabel returns the warning for a deprecated node label; empty for any other label.
func RenamedLabel(key string) string {
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
