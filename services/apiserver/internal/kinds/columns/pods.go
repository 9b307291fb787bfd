package columns

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
)

func pods() layout {
	spec, status := corev1.PodSpec{}.SwaggerDoc(), corev1.PodStatus{}.SwaggerDoc()
	return of([]metav1.TableColumnDefinition{
		name(),
		text("Ready", "The aggregate readiness state of this pod for accepting traffic."),
		text("Status", "The aggregate status of the containers in this pod."),
		text("Restarts", "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted."),
		age(),
		wide(text("IP", status["podIP"])),
		wide(text("Node", spec["nodeName"])),
		wide(text("Nominated Node", status["nominatedNodeName"])),
		wide(text("Readiness Gates", spec["readinessGates"])),
	}, podCells)
}

// conditions marks the rows of pods that have ended.
func conditions(obj scheme.Object) []metav1.TableRowCondition {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil
	}
	message := ""
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		message = "The pod has completed successfully."
	case corev1.PodFailed:
		message = "The pod failed."
	default:
		return nil
	}
	return []metav1.TableRowCondition{{
		Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: string(pod.Status.Phase), Message: message,
	}}
}

func podCells(pod *corev1.Pod, now time.Time) []any {
	s := summarize(pod)
	restarts := strconv.Itoa(s.restarts)
	if s.restarts != 0 && !s.lastRestart.IsZero() {
		restarts = fmt.Sprintf("%d (%s ago)", s.restarts, since(s.lastRestart, now))
	}
	ip := pod.Status.PodIP
	if len(pod.Status.PodIPs) > 0 {
		ip = pod.Status.PodIPs[0].IP
	}
	return []any{
		pod.Name, fmt.Sprintf("%d/%d", s.ready, s.total), s.reason, restarts, ageOf(pod, now),
		orNone(ip), orNone(pod.Spec.NodeName), orNone(pod.Status.NominatedNodeName), gates(pod),
	}
}

// gates counts the readiness gates of a pod that have passed.
func gates(pod *corev1.Pod) string {
	if len(pod.Spec.ReadinessGates) == 0 {
		return none
	}
	open := 0
	for _, gate := range pod.Spec.ReadinessGates {
		if isTrue(pod, gate.ConditionType) {
			open++
		}
	}
	return fmt.Sprintf("%d/%d", open, len(pod.Spec.ReadinessGates))
}

func isTrue(pod *corev1.Pod, condition corev1.PodConditionType) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == condition {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// summary is the state of a pod's containers in one row.
type summary struct {
	ready, total int
	reason       string
	restarts     int
	lastRestart  time.Time
}

// restarted counts the restarts of a container.
func (s *summary) restarted(status *corev1.ContainerStatus) {
	s.restarts += int(status.RestartCount)
	if last := status.LastTerminationState.Terminated; last != nil && s.lastRestart.Before(last.FinishedAt.Time) {
		s.lastRestart = last.FinishedAt.Time
	}
}

// summarize combines the statuses of a pod's containers, by the rules of Kubernetes' printPod.
func summarize(pod *corev1.Pod) summary {
	s := summary{total: len(pod.Spec.Containers), reason: string(pod.Status.Phase)}
	if pod.Status.Reason != "" {
		s.reason = pod.Status.Reason
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			s.reason = corev1.PodReasonSchedulingGated
		}
	}
	sidecars := map[string]bool{}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars[c.Name] = true
			s.total++
		}
	}
	lasting, initializing := s.initContainers(pod, sidecars)
	if !initializing || isTrue(pod, corev1.PodInitialized) {
		s.restarts, s.lastRestart = lasting.restarts, lasting.lastRestart
		s.containers(pod)
	}
	switch {
	case pod.DeletionTimestamp != nil && pod.Status.Reason == "NodeLost":
		s.reason = "Unknown"
	case pod.DeletionTimestamp != nil && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded:
		s.reason = "Terminating"
	}
	return s
}

// initContainers evaluates the init containers up to the first that is not done. It returns the
// restarts of those that keep running beside the app containers.
func (s *summary) initContainers(pod *corev1.Pod, sidecars map[string]bool) (lasting summary, initializing bool) {
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		s.restarted(status)
		if sidecars[status.Name] {
			lasting.restarted(status)
		}
		terminated, waiting := status.State.Terminated, status.State.Waiting
		switch {
		case terminated != nil && terminated.ExitCode == 0:
			continue
		case sidecars[status.Name] && status.Started != nil && *status.Started:
			if status.Ready {
				s.ready++
			}
			continue
		case terminated != nil:
			s.reason = "Init:" + ended(terminated)
		case waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing":
			s.reason = "Init:" + waiting.Reason
		default:
			s.reason = fmt.Sprintf("Init:%d/%d", i, len(pod.Spec.InitContainers))
		}
		return lasting, true
	}
	return lasting, false
}

// containers evaluates the app containers; the first one with a reason determines the pod's.
func (s *summary) containers(pod *corev1.Pod) {
	running := false
	for i := len(pod.Status.ContainerStatuses) - 1; i >= 0; i-- {
		status := &pod.Status.ContainerStatuses[i]
		s.restarted(status)
		switch {
		case status.State.Waiting != nil && status.State.Waiting.Reason != "":
			s.reason = status.State.Waiting.Reason
		case status.State.Terminated != nil:
			s.reason = ended(status.State.Terminated)
		case status.Ready && status.State.Running != nil:
			running = true
			s.ready++
		}
	}
	if s.reason == "Completed" && running {
		s.reason = "NotReady"
		if isTrue(pod, corev1.PodReady) {
			s.reason = "Running"
		}
	}
}

// ended describes how a container ended.
func ended(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}
