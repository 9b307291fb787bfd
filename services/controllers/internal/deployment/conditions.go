package deployment

import (
	"fmt"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of the condition Progressing, named as in Kubernetes.
const (
	reasonCreated     = "NewReplicaSetCreated"
	reasonCreateError = "ReplicaSetCreateError"
	reasonFound       = "FoundNewReplicaSet"
	reasonUpdated     = "ReplicaSetUpdated"
	reasonAvailable   = "NewReplicaSetAvailable"
	reasonTimedOut    = "ProgressDeadlineExceeded"
	reasonPaused      = "DeploymentPaused"
	reasonResumed     = "DeploymentResumed"
)

// Reasons of the condition Available.
const (
	reasonMinimumAvailable   = "MinimumReplicasAvailable"
	reasonMinimumUnavailable = "MinimumReplicasUnavailable"
)

func newCondition(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string) appsv1.DeploymentCondition {
	now := metav1.Now()
	return appsv1.DeploymentCondition{
		Type: kind, Status: status, Reason: reason, Message: message, LastUpdateTime: now, LastTransitionTime: now,
	}
}

func findCondition(status *appsv1.DeploymentStatus, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == kind {
			return &status.Conditions[i]
		}
	}
	return nil
}

// setCondition replaces the condition of the same type. If the current one has the same status and
// reason it stays, with its times.
func setCondition(status *appsv1.DeploymentStatus, condition appsv1.DeploymentCondition) {
	current := findCondition(status, condition.Type)
	if current != nil && current.Status == condition.Status && current.Reason == condition.Reason {
		return
	}
	if current != nil && current.Status == condition.Status {
		condition.LastTransitionTime = current.LastTransitionTime
	}
	removeCondition(status, condition.Type)
	status.Conditions = append(status.Conditions, condition)
}

func removeCondition(status *appsv1.DeploymentStatus, kind appsv1.DeploymentConditionType) {
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == kind })
}

// deadline returns how long a Deployment may go without progress, and whether there is a limit.
func deadline(d *appsv1.Deployment) (time.Duration, bool) {
	seconds := d.Spec.ProgressDeadlineSeconds
	if seconds == nil || *seconds == math.MaxInt32 {
		return 0, false
	}
	return time.Duration(*seconds) * time.Second, true
}

// complete reports whether every desired pod is of the newest template and available, and no other
// is left.
func complete(d *appsv1.Deployment, status *appsv1.DeploymentStatus) bool {
	wanted := replicas(d)
	return status.UpdatedReplicas == wanted && status.Replicas == wanted && status.AvailableReplicas == wanted &&
		status.ObservedGeneration >= d.Generation
}

// progressing reports whether status is nearer to completion than the Deployment's current one.
func progressing(d *appsv1.Deployment, status *appsv1.DeploymentStatus) bool {
	was := &d.Status
	return status.UpdatedReplicas > was.UpdatedReplicas ||
		status.Replicas-status.UpdatedReplicas < was.Replicas-was.UpdatedReplicas ||
		status.ReadyReplicas > was.ReadyReplicas || status.AvailableReplicas > was.AvailableReplicas
}

// timedOut reports whether a Deployment has gone without progress for longer than it may.
func timedOut(d *appsv1.Deployment, status *appsv1.DeploymentStatus, now time.Time) bool {
	condition := findCondition(status, appsv1.DeploymentProgressing)
	limit, limited := deadline(d)
	switch {
	case !limited || condition == nil || condition.Reason == reasonAvailable:
		return false
	case condition.Reason == reasonTimedOut:
		return true
	default:
		return condition.LastUpdateTime.Add(limit).Before(now)
	}
}

// newStatus sums up the status of a Deployment's ReplicaSets. newest is nil while it does not
// exist.
func newStatus(d *appsv1.Deployment, newest *appsv1.ReplicaSet, all []*appsv1.ReplicaSet) appsv1.DeploymentStatus {
	availableReplicas := sum(all, available)
	status := appsv1.DeploymentStatus{
		ObservedGeneration:  d.Generation,
		Replicas:            sum(all, func(rs *appsv1.ReplicaSet) int32 { return rs.Status.Replicas }),
		ReadyReplicas:       sum(all, func(rs *appsv1.ReplicaSet) int32 { return rs.Status.ReadyReplicas }),
		AvailableReplicas:   availableReplicas,
		UnavailableReplicas: max(sum(all, size)-availableReplicas, 0),
		TerminatingReplicas: terminating(all),
		CollisionCount:      d.Status.CollisionCount,
		Conditions:          slices.Clone(d.Status.Conditions),
	}
	if newest != nil {
		status.UpdatedReplicas = newest.Status.Replicas
	}
	if availableReplicas >= replicas(d)-boundsOf(d).unavailable {
		setCondition(&status, newCondition(appsv1.DeploymentAvailable, corev1.ConditionTrue,
			reasonMinimumAvailable, "Deployment has minimum availability."))
	} else {
		setCondition(&status, newCondition(appsv1.DeploymentAvailable, corev1.ConditionFalse,
			reasonMinimumUnavailable, "Deployment does not have minimum availability."))
	}
	return status
}

// terminating counts the terminating pods; nil if any ReplicaSet does not report them.
func terminating(all []*appsv1.ReplicaSet) *int32 {
	var total int32
	for _, rs := range all {
		if rs.Status.TerminatingReplicas == nil {
			return nil
		}
		total += *rs.Status.TerminatingReplicas
	}
	return &total
}

// setProgress writes the state of the rollout into status, by comparison with d.Status.
func setProgress(d *appsv1.Deployment, newest *appsv1.ReplicaSet, status *appsv1.DeploymentStatus, now time.Time) {
	if _, limited := deadline(d); !limited {
		removeCondition(status, appsv1.DeploymentProgressing)
		return
	}
	current := findCondition(&d.Status, appsv1.DeploymentProgressing)
	if status.Replicas == status.UpdatedReplicas && current != nil && current.Reason == reasonAvailable {
		return // The rollout was complete; what is missing now is not its concern.
	}
	subject := fmt.Sprintf("Deployment %q", d.Name)
	if newest != nil {
		subject = fmt.Sprintf("ReplicaSet %q", newest.Name)
	}
	switch {
	case complete(d, status):
		setCondition(status, newCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue,
			reasonAvailable, subject+" has successfully progressed."))
	case progressing(d, status):
		condition := newCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonUpdated, subject+" is progressing.")
		if current != nil {
			if current.Status == corev1.ConditionTrue {
				condition.LastTransitionTime = current.LastTransitionTime
			}
			// Replacing the same condition makes its update time the time of the last progress.
			removeCondition(status, appsv1.DeploymentProgressing)
		}
		setCondition(status, condition)
	case timedOut(d, status, now):
		setCondition(status, newCondition(appsv1.DeploymentProgressing, corev1.ConditionFalse,
			reasonTimedOut, subject+" has timed out progressing."))
	}
}

// setFailure copies a ReplicaSet's failure to create pods to its Deployment: the newest
// ReplicaSet's takes precedence.
func setFailure(newest *appsv1.ReplicaSet, all []*appsv1.ReplicaSet, status *appsv1.DeploymentStatus) {
	sets := all
	if newest != nil {
		sets = append([]*appsv1.ReplicaSet{newest}, all...)
	}
	for _, rs := range sets {
		for _, c := range rs.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure {
				setCondition(status, appsv1.DeploymentCondition{
					Type: appsv1.DeploymentReplicaFailure, Status: c.Status, Reason: c.Reason, Message: c.Message,
					LastTransitionTime: c.LastTransitionTime, LastUpdateTime: c.LastTransitionTime,
				})
				return
			}
		}
	}
	removeCondition(status, appsv1.DeploymentReplicaFailure)
}
