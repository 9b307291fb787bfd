// Package tolerations compares and joins the tolerations of pods, as Kubernetes' admission plugins do.
package tolerations

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// Merge joins tolerations and drops those that another one includes. The first of
// several equal ones stays.
func Merge(first, second []corev1.Toleration) []corev1.Toleration {
	all := slices.Concat(first, second)
	var merged []corev1.Toleration
	for i, t := range all {
		earlier := func(other corev1.Toleration) bool { return includes(other, t) }
		later := func(other corev1.Toleration) bool {
			return !apiequality.Semantic.DeepEqual(other, t) && includes(other, t)
		}
		if !slices.ContainsFunc(merged, earlier) && !slices.ContainsFunc(all[i+1:], later) {
			merged = append(merged, t)
		}
	}
	return merged
}

// includes reports whether wide tolerates everything that narrow does.
func includes(wide, narrow corev1.Toleration) bool {
	if apiequality.Semantic.DeepEqual(wide, narrow) {
		return true
	}
	if narrow.Key != wide.Key && (wide.Key != "" || wide.Operator != corev1.TolerationOpExists) {
		return false
	}
	if narrow.Effect != wide.Effect && wide.Effect != "" {
		return false
	}
	if wide.Effect == corev1.TaintEffectNoExecute && wide.TolerationSeconds != nil &&
		(narrow.TolerationSeconds == nil || *narrow.TolerationSeconds > *wide.TolerationSeconds) {
		return false
	}
	switch wide.Operator {
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpEqual, "":
		return narrow.Operator == corev1.TolerationOpEqual && narrow.Value == wide.Value
	}
	return false
}

// Allowed reports whether each of a pod's tolerations is included in one of a list. An empty list
// allows all.
func Allowed(pod, list []corev1.Toleration) bool {
	if len(list) == 0 {
		return true
	}
	return !slices.ContainsFunc(pod, func(t corev1.Toleration) bool {
		return !slices.ContainsFunc(list, func(wide corev1.Toleration) bool { return includes(wide, t) })
	})
}
