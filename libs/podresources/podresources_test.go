package podresources_test

import (
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/libs/podresources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRequests(t *testing.T) {
	for _, tt := range []struct {
		name, pod, cpu, orCPU, limit string
	}{
		{"containers add up", `{spec: {containers: [{name: a, resources: {requests: {cpu: 100m}}}, {name: b, resources: {requests: {cpu: 1}, limits: {cpu: 2}}}]}}`,
			"1100m", "1100m", "2"},
		{"a container without a request", `{spec: {containers: [{name: a}, {name: b, resources: {requests: {cpu: 0}}}]}}`, "0", "100m", "0"},
		{"a sidecar beside an init container", `{spec: {overhead: {cpu: 50m}, initContainers: [{name: s, restartPolicy: Always, resources: {requests: {cpu: 200m}}},
			{name: i, resources: {requests: {cpu: 1}}}], containers: [{name: a, resources: {requests: {cpu: 500m}}}]}}`, "1250m", "1250m", "0"},
		{"pod-level resources", `{spec: {resources: {requests: {cpu: 3}, limits: {cpu: 4}}, containers: [{name: a, resources: {requests: {cpu: 1}}}]}}`, "3", "3", "4"},
		{"growing", `{spec: {containers: [{name: a, resources: {requests: {cpu: 2}}}]}, status: {containerStatuses: [{name: a,
			allocatedResources: {cpu: 1}, resources: {requests: {cpu: 1}}}]}}`, "2", "2", "0"},
		{"shrinking", `{spec: {containers: [{name: a, resources: {requests: {cpu: 1}}}]}, status: {containerStatuses: [{name: a,
			allocatedResources: {cpu: 1}, resources: {requests: {cpu: 2}}}]}}`, "2", "2", "0"},
		{"an infeasible resize", `{spec: {containers: [{name: a, resources: {requests: {cpu: 64}}}]}, status: {conditions: [{type: PodResizePending, reason: Infeasible}],
			containerStatuses: [{name: a, allocatedResources: {cpu: 1}, resources: {requests: {cpu: 1}}}]}}`, "1", "1", "0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var pod corev1.Pod
			if err := yaml.UnmarshalStrict([]byte(tt.pod), &pod); err != nil {
				t.Fatal(err)
			}
			missing := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
			requests, or, limits := podresources.Requests(&pod), podresources.RequestsOr(&pod, missing), podresources.Limits(&pod)
			if got := requests.Cpu().String(); got != tt.cpu {
				t.Errorf("requests %s, want %s", got, tt.cpu)
			}
			if got := or.Cpu().String(); got != tt.orCPU {
				t.Errorf("requests %s with defaults for missing ones, want %s", got, tt.orCPU)
			}
			if got := limits.Cpu().String(); got != tt.limit {
				t.Errorf("limits %s, want %s", got, tt.limit)
			}
		})
	}
}
