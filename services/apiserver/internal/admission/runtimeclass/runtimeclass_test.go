package runtimeclass

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// try admits a request by the plugin alone, and returns the warnings.
func try(t *testing.T, w *admissiontest.World, req *admission.Request) ([]string, error) {
	t.Helper()
	return w.Admit(t, req, Plugin(w.Objects()))
}

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
		"no class":          {pod: admissiontest.Pod()},
		"a missing class":   {pod: admissiontest.Pod(named("x")), refused: `pods "p" is forbidden: pod rejected: RuntimeClass "x" not found`},
		"a plain class":     {pod: admissiontest.Pod(named("plain"), selects("a", "b")), selector: map[string]string{"a": "b"}},
		"a full class":      {pod: admissiontest.Pod(named("sandbox")), overhead: overhead("250m"), selector: sandbox.Scheduling.NodeSelector, tolerations: []corev1.Toleration{toleration}},
		"the same overhead": {pod: admissiontest.Pod(named("sandbox"), over(overhead("0.25"))), overhead: overhead("250m"), selector: sandbox.Scheduling.NodeSelector, tolerations: []corev1.Toleration{toleration}},
		"another overhead": {pod: admissiontest.Pod(named("sandbox"), over(overhead("1"))),
			refused: `pods "p" is forbidden: pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead`},
		"overhead without the class's": {pod: admissiontest.Pod(named("plain"), over(overhead("1"))),
			refused: `pods "p" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead`},
		"overhead without a class": {pod: admissiontest.Pod(over(overhead("1"))),
			refused: `pods "p" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead`},
		"an additional selector": {pod: admissiontest.Pod(named("sandbox"), selects("a", "b")), overhead: overhead("250m"),
			selector: map[string]string{"a": "b", "runtime": "sandbox"}, tolerations: []corev1.Toleration{toleration}},
		"a conflicting selector": {pod: admissiontest.Pod(named("sandbox"), selects("runtime", "none")),
			refused: `pods "p" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[runtime] = sandbox; pod.spec.nodeSelector[runtime] = none`},
		"included tolerations": {pod: admissiontest.Pod(named("sandbox"), tolerates(narrow, toleration)), overhead: overhead("250m"),
			selector: sandbox.Scheduling.NodeSelector, tolerations: []corev1.Toleration{toleration}},
	} {
		t.Run(name, func(t *testing.T) {
			kept := sandbox.DeepCopy()
			w := admissiontest.New(plain.DeepCopy(), kept)
			kept = kept.DeepCopy()
			_, err := try(t, w, &admission.Request{Object: c.pod})
			admissiontest.Refused(t, err, c.refused)
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
			stored, err := w.Live(t.Context(), w.Table.KindOf(kept), "", kept.Name)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(kept, stored); diff != "" {
				t.Errorf("the stored class was changed:\n%s", diff)
			}
		})
	}
	t.Run("update", func(t *testing.T) {
		is := admissiontest.Pod(named("gone"), over(overhead("1")))
		if _, err := try(t, admissiontest.New(), &admission.Request{Verb: admission.Update, Object: is, Old: is.DeepCopy()}); err != nil {
			t.Error(err)
		}
	})
}
