package strategy

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodMatchesItsOwnLabels(t *testing.T) {
	term := corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{}, MatchLabelKeys: []string{"v", "none"}, MismatchLabelKeys: []string{"team"}}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"v": "1", "team": "a"}}, Spec: corev1.PodSpec{
		Affinity: &corev1.Affinity{
			PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{*term.DeepCopy()}},
			PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: *term.DeepCopy()}}},
		},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{LabelSelector: &metav1.LabelSelector{}, MatchLabelKeys: []string{"v"}}, {MatchLabelKeys: []string{"v"}}},
	}}
	pod().PrepareForCreate(p)
	in := metav1.LabelSelectorRequirement{Key: "v", Operator: metav1.LabelSelectorOpIn, Values: []string{"1"}}
	both := []metav1.LabelSelectorRequirement{in, {Key: "team", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"a"}}}
	for name, got := range map[string][]metav1.LabelSelectorRequirement{
		"affinity":      p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchExpressions,
		"anti-affinity": p.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm.LabelSelector.MatchExpressions,
	} {
		if diff := cmp.Diff(both, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff([]metav1.LabelSelectorRequirement{in}, p.Spec.TopologySpreadConstraints[0].LabelSelector.MatchExpressions); diff != "" {
		t.Errorf("spread (-want +got):\n%s", diff)
	}
	if p.Spec.TopologySpreadConstraints[1].LabelSelector != nil {
		t.Error("a constraint got a selector that it did not have")
	}
}

func TestAppArmorOfAnnotations(t *testing.T) {
	const key = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix
	own := &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key + "a": "localhost/p", key + "b": "runtime/default", key + "c": "runtime/default", key + "d": "localhost/"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "a"}, {Name: "b", SecurityContext: &corev1.SecurityContext{AppArmorProfile: own}}, {Name: "c"}, {Name: "d"},
		}, SecurityContext: &corev1.PodSecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}}},
	}
	pod().PrepareForCreate(p)
	list := p.Spec.Containers
	want := &corev1.SecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: new("p")}}
	if diff := cmp.Diff(want, list[0].SecurityContext); diff != "" {
		t.Errorf("named profile (-want +got):\n%s", diff)
	}
	if list[1].SecurityContext.AppArmorProfile.Type != corev1.AppArmorProfileTypeUnconfined || list[2].SecurityContext != nil || list[3].SecurityContext != nil {
		t.Errorf("a profile was set that existed, is the pod's or is invalid: %+v", list[1:])
	}
	windows := &corev1.Pod{ObjectMeta: p.ObjectMeta, Spec: corev1.PodSpec{OS: &corev1.PodOS{Name: corev1.Windows}, Containers: []corev1.Container{{Name: "a"}}}}
	pod().PrepareForCreate(windows)
	if windows.Spec.Containers[0].SecurityContext != nil {
		t.Error("a container on Windows got a profile of Linux")
	}
}

func TestNodeWarnings(t *testing.T) {
	n := &corev1.Node{Spec: corev1.NodeSpec{ConfigSource: &corev1.NodeConfigSource{}, DoNotUseExternalID: "a", PodCIDRs: []string{"10.0.0.0/24"}}} //nolint:staticcheck // It is warned of.
	want := []string{"spec.configSource: the feature is no longer supported", "spec.externalID: this field is deprecated, and is unused by Kubernetes"}
	if got := node().Warnings(n); !slices.Equal(got, want) {
		t.Errorf("got warnings %q", got)
	}
}
