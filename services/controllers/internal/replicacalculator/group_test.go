package replicacalculator

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/controllers/internal/metricsapi"
)

// TestBegins checks for how long what a pod uses of the CPU says nothing.
func TestBegins(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) metav1.Time { return metav1.Time{Time: now.Add(-d)} }
	c := Calculator{CPUInitialization: 2 * time.Minute, ReadinessDelay: 10 * time.Second}
	for name, p := range map[string]struct {
		ready          corev1.ConditionStatus // no condition when empty
		start, changed time.Duration          // ago
		measured       time.Duration          // ago, within 30 seconds
		want           bool
	}{
		"no condition":                                    {start: time.Minute, want: true},
		"ready, measured since":                           {ready: corev1.ConditionTrue, start: time.Minute, changed: 30 * time.Second, want: false},
		"ready, measured before":                          {ready: corev1.ConditionTrue, start: time.Minute, changed: 29 * time.Second, measured: time.Second, want: true},
		"not ready, new":                                  {ready: corev1.ConditionFalse, start: time.Minute, changed: 30 * time.Second, want: true},
		"ready for long, measured before":                 {ready: corev1.ConditionTrue, start: 3 * time.Minute, changed: 3 * time.Minute, measured: 3 * time.Minute, want: false},
		"not ready, was ready":                            {ready: corev1.ConditionFalse, start: 3 * time.Minute, changed: 2 * time.Minute, want: false},
		"not ready, never was":                            {ready: corev1.ConditionFalse, start: 3 * time.Minute, changed: 3*time.Minute - time.Second, want: true},
		"not ready, changed when the delay was just over": {ready: corev1.ConditionFalse, start: 3 * time.Minute, changed: 3*time.Minute - 10*time.Second, want: false},
	} {
		start := ago(p.start)
		pod := &corev1.Pod{Status: corev1.PodStatus{StartTime: &start}}
		if p.ready != "" {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: p.ready, LastTransitionTime: ago(p.changed)}}
		}
		if got := c.begins(pod, metricsapi.PodMetric{Timestamp: now.Add(-p.measured), Window: 30 * time.Second}, now); got != p.want {
			t.Errorf("%s: got %v", name, got)
		}
		pod.Status.StartTime = nil
		if !c.begins(pod, metricsapi.PodMetric{Timestamp: now, Window: 0}, now) {
			t.Errorf("%s: a pod that has not started says something", name)
		}
	}
}

// TestRequests has the cases of Kubernetes' tests of the same sums.
func TestRequests(t *testing.T) {
	list := func(cpu string) corev1.ResourceRequirements {
		if cpu == "" {
			return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1")}}
		}
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
	}
	always := corev1.ContainerRestartPolicyAlways
	for name, c := range map[string]struct {
		containers []string
		init       string // of a container that runs before
		sidecar    string // of one that runs beside
		pod        string
		of         string
		want       int64
		fault      string
	}{
		"a sum":                            {containers: []string{"100m", "50m"}, want: 150},
		"the pod's own":                    {containers: []string{"100m", "50m"}, pod: "800m", want: 800},
		"the pod's own, containers' unset": {containers: []string{"", "50m"}, pod: "800m", want: 800},
		"of one container":                 {containers: []string{"100m", "50m"}, of: "a", want: 100},
		"of one container, not the pod":    {containers: []string{"100m", "50m"}, pod: "800m", of: "b", want: 50},
		"with a sidecar":                   {containers: []string{"100m"}, sidecar: "50m", want: 150},
		"of a sidecar":                     {containers: []string{"100m"}, sidecar: "50m", of: "sidecar", want: 50},
		"without what ran before":          {containers: []string{"100m"}, init: "500m", want: 100},
		"one unset":                        {containers: []string{"", "50m"}, fault: "missing request for cpu in container a of Pod web"},
		"no such container":                {containers: []string{"50m"}, of: "z", fault: "container z not found in Pod web"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
		for i, cpu := range c.containers {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: string(rune('a' + i)), Resources: list(cpu)})
		}
		if c.init != "" {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: "init", Resources: list(c.init)})
		}
		if c.sidecar != "" {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: "sidecar", Resources: list(c.sidecar), RestartPolicy: &always})
		}
		if c.pod != "" {
			own := list(c.pod)
			pod.Spec.Resources = &own
		}
		got, err := requests([]*corev1.Pod{pod}, c.of, corev1.ResourceCPU)
		switch {
		case c.fault != "":
			if err == nil || err.Error() != c.fault {
				t.Errorf("%s: got %v, want %s", name, err, c.fault)
			}
		case err != nil || got["web"] != c.want:
			t.Errorf("%s: got %d and %v, want %d", name, got["web"], err, c.want)
		}
	}
}
