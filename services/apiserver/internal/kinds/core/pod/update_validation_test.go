package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
)

func TestGatedPods(t *testing.T) {
	one := corev1.NodeSelectorRequirement{Key: "a", Operator: corev1.NodeSelectorOpExists}
	two := corev1.NodeSelectorRequirement{Key: "b", Operator: corev1.NodeSelectorOpExists}
	to := func(terms ...[]corev1.NodeSelectorRequirement) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			s := &corev1.NodeSelector{}
			for _, term := range terms {
				s.NodeSelectorTerms = append(s.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: term})
			}
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: s}}
		}
	}
	const terms = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
	for _, tc := range []struct {
		name   string
		gated  bool
		change func(*corev1.Pod)
		want   []string
	}{
		{"more of a selector", true, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "1", "b": "2"} }, nil},
		{"more of a selector, too late", false, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "1", "b": "2"} }, []string{"spec: Forbidden: pod updates may not change fields other than"}},
		{"another selector", true, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "2"} }, []string{"spec.nodeSelector: Invalid value: {\"a\":\"2\"}: only additions to spec.nodeSelector are allowed (no mutations or deletions)"}},
		{"more of a term", true, to([]corev1.NodeSelectorRequirement{one, two}), nil},
		{"another term", true, to([]corev1.NodeSelectorRequirement{two}), []string{terms + "[0]: Invalid value:", "only additions are allowed (no mutations or deletions)"}},
		{"more terms", true, to([]corev1.NodeSelectorRequirement{one}, []corev1.NodeSelectorRequirement{two}), []string{terms + ": Invalid value:", "no additions/deletions to non-empty NodeSelectorTerms list are allowed"}},
		{"no affinity", true, func(p *corev1.Pod) { p.Spec.Affinity = nil }, []string{"no additions/deletions"}},
		{"affinity to pods", true, func(p *corev1.Pod) {
			p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "z"}}}
		}, []string{"spec: Forbidden"}},
		{"mirror", true, func(p *corev1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.mirror": "x"} }, []string{"metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not add mirror pod annotation"}},
		{"a new gate", true, func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "h"}} }, []string{"spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'h'"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := valid()
			if tc.gated {
				old.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
			}
			old.Spec.NodeSelector = map[string]string{"a": "1"}
			to([]corev1.NodeSelectorRequirement{one})(old)
			podtemplate.DefaultPod(old)
			p := old.DeepCopy()
			tc.change(p)
			checkErrors(t, validateUpdate(p, old).ToAggregate(), tc.want)
		})
	}
}

func TestPodUpdate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*corev1.Pod)
		want   []string
	}{
		{"nothing", func(*corev1.Pod) {}, nil},
		{"image", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other" }, nil},
		{"shorter deadline", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(5)) }, nil},
		{"longer deadline", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(50)) }, []string{"must be less than or equal to previous value"}},
		{"odd deadline", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(1 << 31)) }, []string{"must be between 0 and 2147483647, inclusive"}},
		{"no deadline", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = nil }, []string{"must not update from a positive integer to nil value"}},
		{"one more toleration", func(p *corev1.Pod) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "b", Operator: corev1.TolerationOpExists})
		}, nil},
		{"no tolerations", func(p *corev1.Pod) { p.Spec.Tolerations = nil }, []string{"existing toleration can not be modified except its tolerationSeconds"}},
		{"one more container", func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "b", Image: "b"})
		}, []string{"pod updates may not add or remove containers"}},
		{"command", func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"a"} }, []string{"spec: Forbidden: pod updates may not change fields other than"}},
		{"new gate, twice", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}, {Name: "g"}} }, []string{
			"spec.schedulingGates[1].name: Forbidden: only deletion is allowed",
		}},
		{"new gate", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }, []string{"only deletion is allowed"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := valid()
			old.Spec.ActiveDeadlineSeconds = new(int64(10))
			old.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}
			podtemplate.DefaultPod(old)
			p := old.DeepCopy()
			tc.change(p)
			podtemplate.DefaultPod(p)
			checkErrors(t, validateUpdate(p, old).ToAggregate(), tc.want)
		})
	}
}
