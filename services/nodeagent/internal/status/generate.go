package status

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
)

// Reason is the reason why a container waits: the outcome of its last start.
type Reason struct{ Reason, Message string }

// Input is everything that a status depends on.
type Input struct {
	// Pod is the wanted pod with the resources it was given; Resized names what now requests
	// others. Old is the last status known to the agent or the API.
	Pod     *corev1.Pod
	Resized []string
	Old     *corev1.PodStatus
	// State is the runtime's state of the pod.
	State *podstate.Pod
	// RuntimeName is the prefix of container IDs: "containerd".
	RuntimeName string
	// HostIPs are the node's addresses, the primary one first.
	HostIPs []string
	// Waiting returns the reason why the named container waits, if it does.
	Waiting func(container string) (Reason, bool)
	// Ready and Started report the probe results of a running container; true when it has no such
	// probe.
	Ready, Started func(container *corev1.Container, id string) bool
	// Ended reports that nothing of the pod runs or will run any more, so that its phase is final.
	Ended bool
	// Now is the current time.
	Now metav1.Time
}

// Generate returns the status of a pod. It shares no memory with its input.
func Generate(in Input) *corev1.PodStatus {
	pod, old := in.Pod, in.Old
	s := &corev1.PodStatus{
		ObservedGeneration: pod.Generation,
		Reason:             old.Reason,
		Message:            old.Message,
		NominatedNodeName:  old.NominatedNodeName,
		QOSClass:           QOSClass(pod),
	}
	if old.StartTime != nil {
		s.StartTime = old.StartTime.DeepCopy()
	} else {
		now := in.Now.Rfc3339Copy()
		s.StartTime = &now
	}
	in.addresses(s)
	s.InitContainerStatuses = in.containerStatuses(pod.Spec.InitContainers, old.InitContainerStatuses, true)
	s.ContainerStatuses = in.containerStatuses(pod.Spec.Containers, old.ContainerStatuses, false)
	s.EphemeralContainerStatuses = in.ephemeralStatuses()
	s.Phase = in.phase(s)
	in.conditions(s)
	return s
}

func (in *Input) addresses(s *corev1.PodStatus) {
	for _, ip := range in.HostIPs {
		s.HostIPs = append(s.HostIPs, corev1.HostIP{IP: ip})
	}
	if len(in.HostIPs) > 0 {
		s.HostIP = in.HostIPs[0]
	}
	ips := in.State.IPs()
	if in.Pod.Spec.HostNetwork && in.State.Sandbox() != nil {
		ips = in.HostIPs
	}
	for _, ip := range ips {
		s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: ip})
	}
	if len(ips) > 0 {
		s.PodIP = ips[0]
	} else if in.Ended || terminal(in.Old.Phase) {
		// A pod that ended keeps its address.
		s.PodIP, s.PodIPs = in.Old.PodIP, slices.Clone(in.Old.PodIPs)
	}
}

// phase returns the pod's phase, from its containers' statuses (kubelet, getPhase).
func (in *Input) phase(s *corev1.PodStatus) corev1.PodPhase {
	computed := in.computePhase(s)
	if terminal(in.Old.Phase) {
		return in.Old.Phase // A pod that ended never runs again.
	}
	if terminal(computed) && !in.Ended {
		// Something may still run: sidecars, or a container that is being stopped.
		if in.Old.Phase == "" {
			return corev1.PodPending
		}
		return in.Old.Phase
	}
	return computed
}

// Finished reports whether the containers' statuses are those of a pod that ended by itself.
func Finished(in Input, s *corev1.PodStatus) bool { return terminal(in.computePhase(s)) }

func (in *Input) computePhase(s *corev1.PodStatus) corev1.PodPhase {
	policy := in.Pod.Spec.RestartPolicy
	pendingInit, failedInit := 0, 0
	for i := range in.Pod.Spec.InitContainers {
		cs := &s.InitContainerStatuses[i]
		if isSidecar(&in.Pod.Spec.InitContainers[i]) {
			if cs.State.Running == nil || cs.Started == nil || !*cs.Started {
				pendingInit++
			}
			continue
		}
		switch {
		case cs.State.Terminated != nil && cs.State.Terminated.ExitCode == 0:
		case cs.State.Terminated != nil:
			failedInit++
		case cs.State.Waiting != nil && cs.LastTerminationState.Terminated != nil && cs.LastTerminationState.Terminated.ExitCode != 0:
			failedInit++
		default:
			pendingInit++
		}
	}
	running, waiting, stopped, succeeded := 0, 0, 0, 0
	for i := range s.ContainerStatuses {
		switch cs := &s.ContainerStatuses[i]; {
		case cs.State.Running != nil:
			running++
		case cs.State.Terminated != nil:
			stopped++
			if cs.State.Terminated.ExitCode == 0 {
				succeeded++
			}
		case cs.LastTerminationState.Terminated != nil:
			stopped++
		default:
			waiting++
		}
	}
	if failedInit > 0 && policy == corev1.RestartPolicyNever {
		return corev1.PodFailed
	}
	switch {
	case in.Ended && running == 0:
		if waiting == 0 && stopped > 0 && stopped == succeeded && failedInit == 0 {
			return corev1.PodSucceeded
		}
		return corev1.PodFailed
	case (pendingInit > 0 || failedInit > 0) && running == 0 && stopped == 0:
		return corev1.PodPending
	case waiting > 0:
		return corev1.PodPending
	case running > 0:
		return corev1.PodRunning
	case stopped > 0:
		switch {
		case policy == corev1.RestartPolicyAlways || policy == "":
			return corev1.PodRunning
		case stopped == succeeded:
			return corev1.PodSucceeded
		case policy == corev1.RestartPolicyNever:
			return corev1.PodFailed
		}
		return corev1.PodRunning
	}
	return corev1.PodPending
}

func terminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// QOSClass returns the pod's quality of service class: as set by the apiserver, else from its
// resources.
func QOSClass(pod *corev1.Pod) corev1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	guaranteed, set := true, false
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
			if !request.IsZero() || !limit.IsZero() {
				set = true
			}
			if limit.IsZero() || (!request.IsZero() && request.Cmp(limit) != 0) {
				guaranteed = false
			}
		}
	}
	switch {
	case !set:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}
