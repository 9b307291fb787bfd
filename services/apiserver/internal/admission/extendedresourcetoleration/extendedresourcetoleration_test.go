package extendedresourcetoleration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// container returns a container that requests one of each resource.
func container(names ...string) corev1.Container {
	c := corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
	for _, name := range names {
		c.Resources.Requests[corev1.ResourceName(name)] = resource.MustParse("1")
	}
	return c
}

func TestExtendedResourceToleration(t *testing.T) {
	of := func(key string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	}
	other := corev1.Toleration{Key: "example.com/gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	seconds := int64(1)
	timed := of("example.com/gpu")
	timed.TolerationSeconds = &seconds
	type list = []corev1.Toleration
	update := func(req *admission.Request) { req.Verb, req.Old = admission.Update, req.Object }
	for _, tc := range []struct {
		name             string
		containers, init []corev1.Container
		has              list
		change           func(*admission.Request)
		want             list
	}{
		{"none", []corev1.Container{container("cpu", "memory", "hugepages-2Mi", "kubernetes.io/x", "requests.example.com/x")}, nil, nil, nil, nil},
		{"one", []corev1.Container{container("cpu", "example.com/gpu")}, nil, nil, nil, list{of("example.com/gpu")}},
		{"several in order", []corev1.Container{container("z.io/a", "b.io/a"), container("b.io/a")}, []corev1.Container{container("a.io/a")}, nil, nil,
			list{of("a.io/a"), of("b.io/a"), of("z.io/a")}},
		{"beside others", []corev1.Container{container("example.com/gpu")}, nil, list{other}, nil, list{other, of("example.com/gpu")}},
		{"a present one", []corev1.Container{container("example.com/gpu")}, nil, list{of("example.com/gpu"), other}, nil, list{of("example.com/gpu"), other}},
		{"one with seconds", []corev1.Container{container("example.com/gpu")}, nil, list{timed, other}, nil, list{of("example.com/gpu"), other}},
		{"an update", []corev1.Container{container("example.com/gpu")}, nil, nil, update, list{of("example.com/gpu")}},
		{"a subresource", []corev1.Container{container("example.com/gpu")}, nil, nil, func(req *admission.Request) { req.Subresource = "status" }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := admissiontest.Pod(func(p *corev1.Pod) {
				p.Spec.Containers, p.Spec.InitContainers, p.Spec.Tolerations = tc.containers, tc.init, tc.has
			})
			req := &admission.Request{Object: pod}
			if tc.change != nil {
				tc.change(req)
			}
			if _, err := admissiontest.New().Admit(t, req, Plugin()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, pod.Spec.Tolerations); diff != "" {
				t.Errorf("the tolerations (-want +got):\n%s", diff)
			}
		})
	}
}
