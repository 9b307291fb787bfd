package strategy

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// beginPod prepares a new pod: its status says only that it is pending, and why.
func beginPod(p *corev1.Pod) {
	p.Generation = 1
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: QOSClass(p)}
	if len(p.Spec.SchedulingGates) > 0 {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
			Message: "Scheduling is blocked due to non-empty scheduling gates",
		}}
	}
	matchOwnLabels(p)
	appArmorFields(p)
}

// matchOwnLabels adds the values of a pod's own labels to its selectors, for the keys that these
// name.
func matchOwnLabels(p *corev1.Pod) {
	add := func(selector *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator) {
		if selector == nil { // It matches nothing.
			return
		}
		for _, key := range keys {
			if value, ok := p.Labels[key]; ok {
				selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
			}
		}
	}
	terms := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range preferred {
			add(preferred[i].PodAffinityTerm.LabelSelector, preferred[i].PodAffinityTerm.MatchLabelKeys, metav1.LabelSelectorOpIn)
			add(preferred[i].PodAffinityTerm.LabelSelector, preferred[i].PodAffinityTerm.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
		}
		for i := range required {
			add(required[i].LabelSelector, required[i].MatchLabelKeys, metav1.LabelSelectorOpIn)
			add(required[i].LabelSelector, required[i].MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
		}
	}
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		terms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		terms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	for i := range p.Spec.TopologySpreadConstraints {
		c := &p.Spec.TopologySpreadConstraints[i]
		add(c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn)
	}
}

// appArmorFields sets the AppArmor profiles of containers whose profiles are only in legacy
// annotations.
func appArmorFields(p *corev1.Pod) {
	if p.Spec.OS != nil && p.Spec.OS.Name == corev1.Windows {
		return
	}
	var whole *corev1.AppArmorProfile
	if p.Spec.SecurityContext != nil {
		whole = p.Spec.SecurityContext.AppArmorProfile
	}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			c := &list[i]
			named := appArmorNamed(p.Annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name])
			if named == nil || apiequality.Semantic.DeepEqual(named, whole) || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
				continue
			}
			if c.SecurityContext == nil {
				c.SecurityContext = &corev1.SecurityContext{}
			}
			c.SecurityContext.AppArmorProfile = named
		}
	}
}

// appArmorNamed returns the profile that an annotation names; nil if there is none or it is
// malformed.
func appArmorNamed(annotation string) *corev1.AppArmorProfile {
	switch annotation {
	case corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	}
	file, ok := strings.CutPrefix(annotation, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
	if !ok || file == "" || strings.TrimSpace(file) != file {
		return nil
	}
	return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &file}
}
