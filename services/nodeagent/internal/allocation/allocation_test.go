package allocation_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/allocation"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

func cpu(request string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(request)}}
}

func pod(init, app corev1.ResourceRequirements) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u", Generation: 2},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "i", Resources: init}},
			Containers:     []corev1.Container{{Name: "c", Resources: app}},
		},
	}
}

// made returns a container in the runtime that was created with these resources.
func made(t *testing.T, name, id string, with corev1.ResourceRequirements, attempt uint32) runtime.Container {
	t.Helper()
	text, err := allocation.Encode(&corev1.Container{Name: name, Resources: with})
	if err != nil {
		t.Fatal(err)
	}
	return runtime.Container{ID: id, PodUID: "u", Name: name, Attempt: attempt, Annotations: map[string]string{allocation.Annotation: text}}
}

func state(containers ...runtime.Container) *podstate.Pod {
	if p := podstate.Group(nil, containers)["u"]; p != nil {
		return p
	}
	return &podstate.Pod{UID: "u"}
}

func TestOf(t *testing.T) {
	foreign := runtime.Container{ID: "x", PodUID: "u", Name: "c", Annotations: map[string]string{allocation.Annotation: "rubbish"}}
	had := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", Resources: new(cpu("100m"))}}}
	for _, c := range []struct {
		name       string
		containers []runtime.Container
		old        corev1.PodStatus
		want       corev1.ResourceRequirements // of the container c, whose spec requests 200m
		resized    string
	}{
		{"nothing was created", nil, corev1.PodStatus{}, cpu("200m"), "[]"},
		{"created with the same", []runtime.Container{made(t, "c", "1", cpu("0.2"), 0)}, corev1.PodStatus{}, cpu("200m"), "[]"},
		{"created with less", []runtime.Container{made(t, "c", "1", cpu("100m"), 0)}, corev1.PodStatus{}, cpu("100m"), "[c]"},
		{"the newest counts", []runtime.Container{made(t, "c", "1", cpu("50m"), 0), made(t, "c", "2", cpu("100m"), 1)}, corev1.PodStatus{}, cpu("100m"), "[c]"},
		{"created with none", []runtime.Container{made(t, "c", "1", corev1.ResourceRequirements{}, 0)}, corev1.PodStatus{}, corev1.ResourceRequirements{}, "[c]"},
		{"the runtime has lost it", nil, had, cpu("100m"), "[c]"},
		{"the runtime knows better than the status", []runtime.Container{made(t, "c", "1", cpu("200m"), 0)}, had, cpu("200m"), "[]"},
		{"created by an agent without the annotation", []runtime.Container{{ID: "1", PodUID: "u", Name: "c"}}, had, cpu("100m"), "[c]"},
		{"a foreign annotation", []runtime.Container{foreign}, corev1.PodStatus{}, cpu("200m"), "[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wanted := pod(cpu("1"), cpu("200m"))
			before := wanted.DeepCopy()
			got, resized := allocation.Of(wanted, state(c.containers...), &c.old)
			if !equality.Semantic.DeepEqual(got.Spec.Containers[0].Resources, c.want) || fmt.Sprint(resized) != c.resized {
				t.Errorf("has %v, resized %v; want %v, %v", got.Spec.Containers[0].Resources, resized, c.want, c.resized)
			}
			if !equality.Semantic.DeepEqual(wanted, before) {
				t.Error("the argument was changed")
			}
			if len(resized) == 0 && got != wanted {
				t.Error("an unresized pod was copied")
			}
		})
	}
}

func TestOfAllParts(t *testing.T) {
	wanted := pod(cpu("2"), cpu("2"))
	wanted.Spec.Resources = new(cpu("4"))
	if got, resized := allocation.Of(wanted, state(), &corev1.PodStatus{}); len(resized) != 0 || got.Spec.Resources == nil {
		t.Errorf("of a pod that was not started: %v", resized)
	}
	got, resized := allocation.Of(wanted, state(made(t, "i", "1", cpu("1"), 0), made(t, "c", "2", cpu("1"), 0)), &corev1.PodStatus{})
	if fmt.Sprint(resized) != "[i c pod]" || got.Spec.Resources != nil || got.Spec.InitContainers[0].Resources.Requests.Cpu().Value() != 1 {
		t.Errorf("resized %v, spec %+v", resized, got.Spec)
	}
	message := allocation.EventMessage(wanted, allocation.Message(resized))
	want := `Pod resize Infeasible: {"initContainers":[{"name":"i","resources":{"requests":{"cpu":"2"}}}],"containers":[{"name":"c","resources":{"requests":{"cpu":"2"}}}],"generation":2,"error":"this node does not resize pods: the resources of [i c pod] stay`
	if !strings.HasPrefix(message, want) {
		t.Errorf("the Event says %s", message)
	}
}
