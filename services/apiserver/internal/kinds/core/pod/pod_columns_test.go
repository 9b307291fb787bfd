package pod

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

func TestPodRow(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	terminated := func(reason string, code, signal int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, Signal: signal, FinishedAt: kindtest.Ago(5 * time.Minute)}}
	}
	always := corev1.ContainerRestartPolicyAlways
	for _, tc := range []struct {
		name  string
		pod   corev1.Pod
		cells []any // ready, status, restarts
	}{
		{"pending", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}, []any{"0/2", "Pending", "0"}},
		{"running", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Ready: true, State: running}, {Ready: true, State: running},
		}}}, []any{"2/2", "Running", "0"}},
		{"crash loop", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{RestartCount: 3, State: waiting("CrashLoopBackOff"), LastTerminationState: terminated("Error", 1, 0)}, {Ready: true, State: running},
		}}}, []any{"1/2", "CrashLoopBackOff", "3 (5m ago)"}},
		{"completed", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{
			{State: terminated("Completed", 0, 0)},
		}}}, []any{"0/2", "Completed", "0"}},
		{"one completed, one runs", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{
				{State: terminated("Completed", 0, 0)}, {Ready: true, State: running},
			}}}, []any{"1/2", "Running", "0"}},
		{"killed", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{
			{State: terminated("", 137, 9)},
		}}}, []any{"0/2", "Signal:9", "0"}},
		{"evicted", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}}, []any{"0/2", "Evicted", "0"}},
		{"initializing", corev1.Pod{
			Spec:   corev1.PodSpec{InitContainers: []corev1.Container{{Name: "a"}, {Name: "b"}}},
			Status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{Name: "a", State: terminated("Completed", 0, 0)}, {Name: "b", State: running}}},
		}, []any{"0/2", "Init:1/2", "0"}},
		{"init failed", corev1.Pod{
			Spec:   corev1.PodSpec{InitContainers: []corev1.Container{{Name: "a"}}},
			Status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{Name: "a", RestartCount: 2, State: terminated("", 3, 0)}}},
		}, []any{"0/2", "Init:ExitCode:3", "2"}},
		{"init crash loop", corev1.Pod{
			Spec:   corev1.PodSpec{InitContainers: []corev1.Container{{Name: "a"}}},
			Status: corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{Name: "a", State: waiting("CrashLoopBackOff")}}},
		}, []any{"0/2", "Init:CrashLoopBackOff", "0"}},
		{"sidecar", corev1.Pod{
			Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "a", RestartPolicy: &always}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning,
				InitContainerStatuses: []corev1.ContainerStatus{{Name: "a", Started: new(true), Ready: true, RestartCount: 1, State: running, LastTerminationState: terminated("Error", 1, 0)}},
				ContainerStatuses:     []corev1.ContainerStatus{{Ready: true, State: running}, {Ready: true, State: running}}},
		}, []any{"3/3", "Running", "1 (5m ago)"}},
		{"terminating", corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(kindtest.Ago(0))}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}, []any{"0/2", "Terminating", "0"}},
		{"node lost", corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(kindtest.Ago(0))}, Status: corev1.PodStatus{Phase: corev1.PodRunning, Reason: "NodeLost"}}, []any{"0/2", "Unknown", "0"}},
		{"gated", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Reason: corev1.PodReasonSchedulingGated}}}}, []any{"0/2", "SchedulingGated", "0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.pod.Spec.Containers = []corev1.Container{{Name: "x"}, {Name: "y"}}
			if got := podCells(&tc.pod, kindtest.Now())[1:4]; !reflect.DeepEqual(got, tc.cells) {
				t.Errorf("got %v, want %v", got, tc.cells)
			}
		})
	}
}
