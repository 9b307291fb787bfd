package status_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/garboard/garboard/services/nodeagent/internal/allocation"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/status"
)

func list(cpu, memory string) corev1.ResourceList {
	l := corev1.ResourceList{}
	if cpu != "" {
		l[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		l[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return l
}

// TestResources: a container's status shows the resources that the runtime reports, else those it
// was created with.
func TestResources(t *testing.T) {
	asked := corev1.ResourceRequirements{Requests: list("100m", "64Mi"), Limits: list("500m", "128Mi")}
	written := func(c runtime.Container, of corev1.ResourceRequirements) runtime.Container {
		text, err := allocation.Encode(&corev1.Container{Resources: of})
		if err != nil {
			t.Fatal(err)
		}
		c.Annotations = map[string]string{allocation.Annotation: text}
		return c
	}
	told := func(c runtime.Container, r runtime.Resources) runtime.Container {
		c.Resources = &r
		return c
	}
	same := runtime.Resources{CPUShares: 102, CPUPeriod: 100000, CPUQuota: 50000, MemoryLimit: 128 << 20}
	smallest := corev1.ResourceRequirements{Requests: list("1m", ""), Limits: list("1m", "")}
	for _, c := range []struct {
		name    string
		asked   corev1.ResourceRequirements
		present runtime.Container
		old     *corev1.ResourceRequirements
		want    *corev1.ResourceRequirements
	}{
		{"as created", asked, written(running("c0"), asked), nil, &asked},
		{"none", corev1.ResourceRequirements{}, written(running("c0"), corev1.ResourceRequirements{}), nil, &corev1.ResourceRequirements{}},
		{"the runtime reports the same", asked, told(running("c0"), same), nil, &asked},
		{
			"the runtime reports others", asked, told(written(running("c0"), asked), runtime.Resources{CPUShares: 204, CPUPeriod: 100000, CPUQuota: 100000, MemoryLimit: 1 << 30}), nil,
			&corev1.ResourceRequirements{Requests: list("200m", "64Mi"), Limits: list("1", "1Gi")},
		},
		{"the runtime reports only a part", asked, told(running("c0"), runtime.Resources{CPUShares: 204}), nil,
			&corev1.ResourceRequirements{Requests: list("200m", "64Mi"), Limits: asked.Limits}},
		{"what cgroups round up", smallest, told(running("c0"), runtime.Resources{CPUShares: 2, CPUPeriod: 100000, CPUQuota: 1000}), nil, &smallest},
		{"the runtime reports more than was requested", corev1.ResourceRequirements{}, told(running("c0"), runtime.Resources{CPUShares: 2}), nil, &corev1.ResourceRequirements{}},
		{"it ended", asked, told(written(exited("c0", 1), asked), runtime.Resources{CPUShares: 204}), nil, &asked},
		{"created by an agent without the annotation", asked, running("c0"), &asked, &asked},
		{"unknown", asked, running("c0"), nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := spec(corev1.RestartPolicyAlways, 0, 1)
			pod.Spec.Containers[0].Resources = c.asked
			var old corev1.PodStatus
			if c.old != nil {
				old.ContainerStatuses = []corev1.ContainerStatus{{Name: "c0", ContainerID: "containerd://id-c0", Resources: c.old}}
			}
			got := status.Generate(input(pod, old, c.present)).ContainerStatuses[0]
			if !equality.Semantic.DeepEqual(got.Resources, c.want) {
				t.Errorf("resources are %+v, want %+v", got.Resources, c.want)
			}
			if (got.Resources != nil) != (got.AllocatedResources != nil) && len(c.asked.Requests) > 0 || got.AllocatedResources != nil && !equality.Semantic.DeepEqual(got.AllocatedResources, c.asked.Requests) {
				t.Errorf("the allocated resources are %v", got.AllocatedResources)
			}
		})
	}
}

// TestEveryRequestSurvivesShares: a request that cgroups can represent is never shown as another.
func TestEveryRequestSurvivesShares(t *testing.T) {
	for milli := int64(1); milli <= 64000; milli++ {
		pod := spec(corev1.RestartPolicyAlways, 0, 1)
		request := resource.NewMilliQuantity(milli, resource.DecimalSI)
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *request}
		c := running("c0")
		c.Resources = &runtime.Resources{CPUShares: max(milli*1024/1000, 2)}
		got := status.Generate(input(pod, corev1.PodStatus{}, c)).ContainerStatuses[0].Resources.Requests.Cpu().MilliValue()
		if got != milli {
			t.Fatalf("%dm is shown as %dm", milli, got)
		}
	}
}

// TestResizePending: the condition appears and disappears with a resize.
func TestResizePending(t *testing.T) {
	pod := spec(corev1.RestartPolicyAlways, 0, 1)
	in := input(pod, corev1.PodStatus{}, running("c0"))
	in.Resized = []string{"c0"}
	s := status.Generate(in)
	if got := condition(s, corev1.PodResizePending); got != "True Infeasible: "+allocation.Message(in.Resized) {
		t.Errorf("the condition is %s", got)
	}
	for _, c := range s.Conditions {
		if c.ObservedGeneration != 2 {
			t.Errorf("%s observed generation %d", c.Type, c.ObservedGeneration)
		}
	}
	if got := condition(status.Generate(input(pod, *s, running("c0"))), corev1.PodResizePending); got != "none" {
		t.Errorf("after the resize was reverted the condition is %s", got)
	}
	in.Ended = true
	in.State.Containers[0].State = runtime.Exited
	if got := condition(status.Generate(in), corev1.PodResizePending); got != "none" {
		t.Errorf("for an ended pod the condition is %s", got)
	}
}
