package pod

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
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
	Pod().PrepareForCreate(p)
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
	Pod().PrepareForCreate(p)
	list := p.Spec.Containers
	want := &corev1.SecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: new("p")}}
	if diff := cmp.Diff(want, list[0].SecurityContext); diff != "" {
		t.Errorf("named profile (-want +got):\n%s", diff)
	}
	if list[1].SecurityContext.AppArmorProfile.Type != corev1.AppArmorProfileTypeUnconfined || list[2].SecurityContext != nil || list[3].SecurityContext != nil {
		t.Errorf("a profile was set that existed, is the pod's or is invalid: %+v", list[1:])
	}
	windows := &corev1.Pod{ObjectMeta: p.ObjectMeta, Spec: corev1.PodSpec{OS: &corev1.PodOS{Name: corev1.Windows}, Containers: []corev1.Container{{Name: "a"}}}}
	Pod().PrepareForCreate(windows)
	if windows.Spec.Containers[0].SecurityContext != nil {
		t.Error("a container on Windows got a profile of Linux")
	}
}

func TestWholeResources(t *testing.T) {
	list := func(cpu string) corev1.ResourceList { return corev1.ResourceList{"cpu": resource.MustParse(cpu)} }
	container := corev1.Container{Name: "a", Resources: corev1.ResourceRequirements{Requests: list("1"), Limits: list("2")}}
	for _, tc := range []struct {
		name                   string
		whole                  *corev1.ResourceRequirements
		wantRequest, wantLimit string
	}{
		{"none", nil, "0", "0"},
		{"empty", &corev1.ResourceRequirements{}, "0", "0"},
		{"requests from the containers", &corev1.ResourceRequirements{Limits: list("5")}, "1", "5"},
		{"limits from the containers", &corev1.ResourceRequirements{Requests: list("1")}, "1", "2"},
		{"limits not below requests", &corev1.ResourceRequirements{Requests: list("3")}, "3", "3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{*container.DeepCopy()}, Resources: tc.whole}}
			beginPod(p)
			got := p.Spec.Resources
			if got == nil {
				got = &corev1.ResourceRequirements{}
			}
			if request, limit := got.Requests.Cpu().String(), got.Limits.Cpu().String(); request != tc.wantRequest || limit != tc.wantLimit {
				t.Errorf("got request %s and limit %s, want %s and %s", request, limit, tc.wantRequest, tc.wantLimit)
			}
		})
	}
}

func TestOnlyResources(t *testing.T) {
	list := func(cpu string) corev1.ResourceList { return corev1.ResourceList{"cpu": resource.MustParse(cpu)} }
	old := &corev1.Pod{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: list("1")}}},
		Resources:  &corev1.ResourceRequirements{Requests: list("1")},
	}}
	more := old.DeepCopy()
	more.Spec.Resources, more.Spec.Containers = nil, append(more.Spec.Containers, corev1.Container{Name: "b"})
	if onlyResources(more, old); more.Spec.Resources == nil || len(more.Spec.Containers) != 2 {
		t.Errorf("a resize with another container became %+v, want validation to see it", more.Spec)
	}
	other := old.DeepCopy()
	other.Spec.Containers[0].Image, other.Spec.Containers[0].Resources.Requests = "x", list("2")
	onlyResources(other, old)
	if c := other.Spec.Containers[0]; c.Image != "" || c.Resources.Requests.Cpu().String() != "2" {
		t.Errorf("a resize changed %+v, want only resources", c)
	}
}

func TestQOSClass(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		l := corev1.ResourceList{}
		if cpu != "" {
			l[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			l[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return l
	}
	for _, tc := range []struct {
		name             string
		requests, limits corev1.ResourceList
		want             corev1.PodQOSClass
	}{
		{"nothing", nil, nil, corev1.PodQOSBestEffort},
		{"requests only", list("1", ""), nil, corev1.PodQOSBurstable},
		{"equal", list("1", "1Gi"), list("1", "1Gi"), corev1.PodQOSGuaranteed},
		{"one limit", list("1", ""), list("1", ""), corev1.PodQOSBurstable},
		{"lower requests", list("500m", "1Gi"), list("1", "1Gi"), corev1.PodQOSBurstable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: tc.requests, Limits: tc.limits}}}}}
			if got := qosClass(p); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestPodParts checks that a request to debug or resize a pod changes nothing else of it.
func TestPodParts(t *testing.T) {
	s := Pod()
	p := kindtest.Sample[*corev1.Pod](t, s)
	changed := p.DeepCopy()
	changed.Labels, changed.Spec.NodeName, changed.Status.Phase = map[string]string{"x": "y"}, "n", corev1.PodFailed
	changed.Spec.Containers[0].Image = "other"
	changed.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("3")}
	changed.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "i"}}}
	for name, restore := range map[string]func(*corev1.Pod){
		"ephemeralcontainers": func(got *corev1.Pod) { got.Spec.EphemeralContainers = nil },
		"resize":              func(got *corev1.Pod) { got.Spec.Containers[0].Resources = *p.Spec.Containers[0].Resources.DeepCopy() },
	} {
		got := changed.DeepCopy()
		s.Subresources[name].Prepare(got, p)
		if got.Generation != p.Generation+1 {
			t.Errorf("%s: got generation %d", name, got.Generation)
		}
		if apiequality.Semantic.DeepEqual(got.Spec, p.Spec) {
			t.Errorf("%s changed nothing", name)
		}
		restore(got)
		got.Generation = p.Generation
		if !apiequality.Semantic.DeepEqual(got, p) {
			t.Errorf("%s changed more:\n%s", name, cmp.Diff(p, got))
		}
	}
	guaranteed := p.DeepCopy()
	all := corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
	for i := range guaranteed.Spec.Containers {
		guaranteed.Spec.Containers[i].Resources = corev1.ResourceRequirements{Requests: all, Limits: all}
	}
	if errs := s.Subresources["resize"].Validate(guaranteed, p); len(errs) != 1 || errs[0].Detail != "Pod QOS Class may not change as a result of resizing" {
		t.Errorf("another class: got errors %v", errs)
	}
}
