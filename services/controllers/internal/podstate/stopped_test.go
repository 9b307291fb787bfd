package podstate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestStopped(t *testing.T) {
	runs := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	waits := corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
	over := corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}
	deleted := metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}
	for name, tt := range map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"new":               {corev1.Pod{}, false},
		"succeeded":         {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, true},
		"failed":            {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed}}, true},
		"over, not deleted": {corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{over}}}, false},
		"never began":       {corev1.Pod{ObjectMeta: deleted}, true},
		"over and waiting":  {corev1.Pod{ObjectMeta: deleted, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{over, waits}}}, true},
		"one runs":          {corev1.Pod{ObjectMeta: deleted, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{over, runs}}}, false},
		"an init container": {corev1.Pod{ObjectMeta: deleted, Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{runs}}}, false},
		"a debug container": {corev1.Pod{ObjectMeta: deleted, Status: corev1.PodStatus{EphemeralContainerStatuses: []corev1.ContainerStatus{runs}}}, false},
	} {
		if got := Stopped(&tt.pod); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
