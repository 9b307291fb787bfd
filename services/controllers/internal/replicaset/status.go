package replicaset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// newStatus computes the status of a set, but for the pods that are being deleted, and returns after how
// long the next ready pod becomes available; 0 if no pod will by time alone.
func newStatus(rs *appsv1.ReplicaSet, active []*corev1.Pod, manageErr error, now time.Time) (appsv1.ReplicaSetStatus, time.Duration) {
	status := *rs.Status.DeepCopy()
	template := labels.Set(rs.Spec.Template.Labels).AsSelectorPreValidated()
	minReady := time.Duration(rs.Spec.MinReadySeconds) * time.Second
	var labelled, ready, available int32
	var next time.Duration
	for _, pod := range active {
		if template.Matches(labels.Set(pod.Labels)) {
			labelled++
		}
		if !podstate.Ready(pod) {
			continue
		}
		ready++
		is, wait := podstate.Available(pod, minReady, now)
		if is {
			available++
		} else if wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
	}
	status.Replicas = int32(len(active))
	status.FullyLabeledReplicas = labelled
	status.ReadyReplicas = ready
	status.AvailableReplicas = available

	failed := slices.ContainsFunc(status.Conditions, func(c appsv1.ReplicaSetCondition) bool {
		return c.Type == appsv1.ReplicaSetReplicaFailure
	})
	switch {
	case manageErr != nil && !failed:
		reason := "FailedDelete"
		if len(active) < int(replicas(rs)) {
			reason = "FailedCreate"
		}
		status.Conditions = append(status.Conditions, appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: reason,
			Message: manageErr.Error(), LastTransitionTime: metav1.NewTime(now),
		})
	case manageErr == nil && failed:
		status.Conditions = slices.DeleteFunc(status.Conditions, func(c appsv1.ReplicaSetCondition) bool {
			return c.Type == appsv1.ReplicaSetReplicaFailure
		})
	}
	return status, next
}

func sameStatus(a, b appsv1.ReplicaSetStatus) bool {
	a.ObservedGeneration, b.ObservedGeneration = 0, 0
	return equality.Semantic.DeepEqual(a, b)
}
