package admission

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func overhead(cpu string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
}

func TestRuntimeClass(t *testing.T) {
	named := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.RuntimeClassName = &name }
	}
	over := func(list corev1.ResourceList) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Overhead = list }
	}
	selects := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
	}
	toleration := corev1.Toleration{Key: "sandboxed", Operator: corev1.TolerationOpExists}
	narrow := corev1.Toleration{Key: "sandboxed", Operator: corev1.TolerationOpEqual, Value: "x"}
	tolerates := func(t ...corev1.Toleration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Tolerations = t }
	}
	plain := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "plain"}, Handler: "runc"}
	sandbox := &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "sandbox"}, Handler: "runsc", Overhead: &nodev1.Overhead{PodFixed: overhead("250m")},
		Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"runtime": "sandbox"}, Tolerations: []corev1.Toleration{toleration}},
	}
	for name, c := range map[string]struct {
		pod         *corev1.Pod
		overhead    corev1.ResourceList
		selector    map[string]string
		tolerations []corev1.Toleration
		refused     string
	}{
		"no class":          {pod: pod()},
		"a missing class":   {pod: pod(named("x")), refused: `pods "p" is forbidden: pod rejected: RuntimeClass "x" not found`},
		"a plain class":     {pod: pod(named("plain"), selects("a", "b")), selector: map[string]string{"a": "b"}},
		"a full class":      {pod: pod(named("sandbox")), overhead: overhead("250m"), selector: sandbox.Scheduling.NodeSelector, tolerations: []corev1.Toleration{toleration}},
		"the same overhead": {pod: pod(named("sandbox"), over(overhead("0.25"))), overhead: overhead("250m"), selector: sandbox.Scheduling.NodeSelector, tolerations: []corev1.Toleration{toleration}},
		"another overhead": {pod: pod(named("sandbox"), over(overhead("1"))),
			refused: `pods "p" is forbidden: pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead`},
		"overhead without the class's": {pod: pod(named("plain"), over(overhead("1"))),
			refused: `pods "p" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead`},
		"overhead without a class": {pod: pod(over(overhead("1"))),
			refused: `pods "p" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead`},
		"an additional selector": {pod: pod(named("sandbox"), selects("a", "b")), overhead: overhead("250m"),
			selector: map[string]string{"a": "b", "runtime": "sandbox"}, tolerations: []corev1.Toleration{toleration}},
		"a conflicting selector": {pod: pod(named("sandbox"), selects("runtime", "none")),
			refused: `pods "p" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[runtime] = sandbox; pod.spec.nodeSelector[runtime] = none`},
		"included tolerations": {pod: pod(named("sandbox"), tolerates(narrow, toleration)), overhead: overhead("250m"),
			selector: sandbox.Scheduling.NodeSelector, tolerations: []corev1.Toleration{toleration}},
	} {
		t.Run(name, func(t *testing.T) {
			kept := sandbox.DeepCopy()
			w := newWorld(plain.DeepCopy(), kept)
			kept = kept.DeepCopy()
			_, err := w.try(t, &Request{Object: c.pod}, nil, "RuntimeClass")
			refused(t, err, c.refused)
			if c.refused != "" {
				return
			}
			spec := c.pod.Spec
			if !maps.Equal(spec.NodeSelector, c.selector) || cmp.Diff(spec.Overhead, c.overhead) != "" || cmp.Diff(spec.Tolerations, c.tolerations) != "" {
				t.Errorf("got overhead %v, selector %v, tolerations %v", spec.Overhead, spec.NodeSelector, spec.Tolerations)
			}
			if spec.NodeSelector != nil {
				spec.NodeSelector["own"] = "yes"
			}
			if diff := cmp.Diff(kept, w.objects[w.key(kept)]); diff != "" {
				t.Errorf("the stored class was changed:\n%s", diff)
			}
		})
	}
	t.Run("update", func(t *testing.T) {
		is := pod(named("gone"), over(overhead("1")))
		if _, err := newWorld().try(t, &Request{Verb: Update, Object: is, Old: is.DeepCopy()}, nil, "RuntimeClass"); err != nil {
			t.Error(err)
		}
	})
}

// TestMergedTolerations checks Kubernetes' rules of which toleration includes which.
func TestMergedTolerations(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	all := corev1.Toleration{Operator: corev1.TolerationOpExists}
	a := corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists}
	equal := corev1.Toleration{Key: "a", Operator: corev1.TolerationOpEqual, Value: "1"}
	evicted := corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	soon, late := evicted, evicted
	soon.TolerationSeconds, late.TolerationSeconds = seconds(5), seconds(10)
	for name, c := range map[string]struct{ first, second, want []corev1.Toleration }{
		"none":         {nil, nil, nil},
		"equal ones":   {[]corev1.Toleration{a}, []corev1.Toleration{a}, []corev1.Toleration{a}},
		"wider after":  {[]corev1.Toleration{equal}, []corev1.Toleration{a}, []corev1.Toleration{a}},
		"wider before": {[]corev1.Toleration{a}, []corev1.Toleration{equal}, []corev1.Toleration{a}},
		"all":          {[]corev1.Toleration{a, equal, late}, []corev1.Toleration{all}, []corev1.Toleration{all}},
		"any effect":   {[]corev1.Toleration{evicted}, []corev1.Toleration{a}, []corev1.Toleration{a}},
		"for longer":   {[]corev1.Toleration{soon}, []corev1.Toleration{late}, []corev1.Toleration{late}},
		"for ever":     {[]corev1.Toleration{late}, []corev1.Toleration{evicted}, []corev1.Toleration{evicted}},
		"others": {[]corev1.Toleration{equal}, []corev1.Toleration{{Key: "b", Operator: corev1.TolerationOpExists}},
			[]corev1.Toleration{equal, {Key: "b", Operator: corev1.TolerationOpExists}}},
	} {
		if diff := cmp.Diff(mergeTolerations(c.first, c.second), c.want); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
