package podactions

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// AnnotationHash is the annotation on the runtime's container with the Hash of its spec.
const AnnotationHash = "io.kubernetes.container.hash"

// Probes provides the probe results of running containers.
type Probes interface {
	// Failed reports whether the liveness or startup probe of the container with this ID has
	// failed, and which: "liveness" or "startup".
	Failed(containerID string) (probe string, failed bool)
	// Started reports whether the container's startup probe, if it has one, has succeeded.
	Started(pod *corev1.Pod, container *corev1.Container, containerID string) bool
}

// Actions are the actions to take for a pod, in this order.
type Actions struct {
	// KillPod stops all its containers and sandboxes.
	KillPod bool
	// CreateSandbox creates a new sandbox, with Attempt.
	CreateSandbox bool
	Attempt       uint32
	// SandboxID is the sandbox to use when none is created.
	SandboxID string
	// Kill are containers to stop.
	Kill []Kill
	// Remove are containers that an earlier agent created but did not start: they are removed and
	// created anew.
	Remove []runtime.Container
	// StartEphemeral are ephemeral containers to start. One that the runtime has created is started
	// as it is.
	StartEphemeral []*corev1.EphemeralContainer
	// StartInit are init containers to start, in order.
	StartInit []*corev1.Container
	// Start are containers to start.
	Start []*corev1.Container
}

// Kill is a container to stop.
type Kill struct {
	Container runtime.Container
	// Message is for the Killing Event.
	Message string
}

// Nothing reports whether there is nothing to do.
func (a *Actions) Nothing() bool {
	return !a.KillPod && !a.CreateSandbox && len(a.Kill)+len(a.Remove) == 0 && !a.Starts()
}

// Starts reports whether there are containers to start.
func (a *Actions) Starts() bool { return len(a.StartEphemeral)+len(a.StartInit)+len(a.Start) > 0 }

// StartNone leaves out every start, of containers and of a sandbox.
func (a *Actions) StartNone() {
	a.CreateSandbox, a.StartEphemeral, a.StartInit, a.Start = false, nil, nil, nil
}

// Hash identifies the parts of a container's spec whose change restarts it: name and image
// (Kubernetes' HashContainer since 1.31).
func Hash(c *corev1.Container) string {
	h := fnv.New32a()
	text, err := json.Marshal(map[string]string{"name": c.Name, "image": c.Image})
	if err != nil {
		// Two strings always encode.
		panic(fmt.Sprintf("podactions: encoding the name and image of a container: %v", err))
	}
	h.Write(text)
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}

// Compute decides what to do for pod. told is the last status of the pod that the agent or the API
// knows.
func Compute(pod *corev1.Pod, told *corev1.PodStatus, state *podstate.Pod, probes Probes) Actions {
	newSandbox, attempt := sandboxChanged(pod, state)
	if newSandbox {
		return forNewSandbox(pod, state, attempt)
	}
	a := Actions{SandboxID: state.Sandbox().ID, Attempt: attempt}
	initialized := a.initContainers(pod, state, probes)
	if initialized && a.containers(pod, state, probes) == 0 && len(a.Start) == 0 {
		// Nothing is left to run; sidecars and ephemeral containers end with the pod.
		a.KillPod, a.StartInit = true, nil
	}
	if !a.KillPod {
		a.ephemeralContainers(pod, told, state)
	}
	return a
}

// sandboxChanged reports whether the pod needs a new sandbox, and its attempt.
func sandboxChanged(pod *corev1.Pod, state *podstate.Pod) (bool, uint32) {
	newest := state.Sandbox()
	if newest == nil {
		return true, 0
	}
	ready := 0
	for _, s := range state.Sandboxes {
		if s.Ready {
			ready++
		}
	}
	switch {
	case ready > 1, !newest.Ready:
		return true, newest.Attempt + 1
	case newest.HostNetwork != pod.Spec.HostNetwork:
		return true, newest.Attempt + 1
	case !pod.Spec.HostNetwork && len(newest.IPs) == 0:
		return true, newest.Attempt + 1
	}
	return false, newest.Attempt
}

// forNewSandbox decides for a pod without a usable sandbox: stop everything that is left, and
// create a sandbox if there is anything to start in it.
func forNewSandbox(pod *corev1.Pod, state *podstate.Pod, attempt uint32) Actions {
	a := Actions{KillPod: true, CreateSandbox: true, Attempt: attempt}
	if pod.Spec.RestartPolicy == corev1.RestartPolicyNever && attempt != 0 && len(state.Containers) > 0 {
		// The pod's containers have run and must not run again.
		a.CreateSandbox = false
		return a
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if present := state.Container(c.Name); present != nil && finished(pod, present) {
			continue
		}
		a.Start = append(a.Start, c)
	}
	if len(a.Start) == 0 {
		a.CreateSandbox = false
		return a
	}
	if len(pod.Spec.InitContainers) > 0 {
		// All init containers run again in a new sandbox; the others wait for them.
		a.Start = nil
		a.StartInit = []*corev1.Container{&pod.Spec.InitContainers[0]}
	}
	return a
}

// finished reports whether the container has ended and the pod's policy does not restart it.
func finished(pod *corev1.Pod, c *runtime.Container) bool {
	if c.State != runtime.Exited {
		return false
	}
	switch pod.Spec.RestartPolicy {
	case corev1.RestartPolicyNever:
		return true
	case corev1.RestartPolicyOnFailure:
		return c.ExitCode == 0
	}
	return false
}

// current returns the newest container with this name in the present sandbox.
func (a *Actions) current(state *podstate.Pod, name string) *runtime.Container {
	c := state.Container(name)
	if c == nil || c.SandboxID != a.SandboxID {
		return nil
	}
	return c
}

// initContainers decides for init containers and reports whether the app containers may start.
func (a *Actions) initContainers(pod *corev1.Pod, state *podstate.Pod, probes Probes) bool {
	done := false
	for i := range pod.Spec.Containers {
		if a.current(state, pod.Spec.Containers[i].Name) != nil {
			// An app container was created: every init container has had its turn.
			done = true
			break
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		present := a.current(state, c.Name)
		var passed bool
		if IsSidecar(c) {
			passed = a.sidecar(pod, c, present, probes)
		} else {
			passed = done || a.initContainer(pod, c, present)
		}
		if a.KillPod {
			return false
		}
		if !passed && !done {
			return false
		}
	}
	return true
}

// initContainer decides for an init container that runs to completion, and reports whether it has
// succeeded.
func (a *Actions) initContainer(pod *corev1.Pod, c *corev1.Container, present *runtime.Container) bool {
	switch {
	case present == nil:
		a.StartInit = append(a.StartInit, c)
		return false
	case present.State == runtime.Created:
		a.Remove = append(a.Remove, *present)
		a.StartInit = append(a.StartInit, c)
		return false
	case present.State == runtime.Running:
		return false
	case present.State == runtime.Unknown:
		a.Kill = append(a.Kill, Kill{*present, fmt.Sprintf("Init container is in %q state, try killing it before restart", present.State)})
		if pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
			a.StartInit = append(a.StartInit, c)
		}
		return false
	case present.ExitCode == 0:
		return true
	case pod.Spec.RestartPolicy == corev1.RestartPolicyNever:
		a.KillPod, a.StartInit = true, nil
		return false
	}
	a.StartInit = append(a.StartInit, c)
	return false
}

// sidecar decides for a restartable init container, and reports whether it has started.
func (a *Actions) sidecar(pod *corev1.Pod, c *corev1.Container, present *runtime.Container, probes Probes) bool {
	switch {
	case present == nil, present.State == runtime.Exited:
		a.StartInit = append(a.StartInit, c)
		return false
	case present.State == runtime.Created:
		a.Remove = append(a.Remove, *present)
		a.StartInit = append(a.StartInit, c)
		return false
	case present.State == runtime.Unknown:
		a.Kill = append(a.Kill, Kill{*present, fmt.Sprintf("Init container is in %q state, try killing it before restart", present.State)})
		a.StartInit = append(a.StartInit, c)
		return false
	}
	if message, kill := mustEnd(c, present, probes, "Init container"); kill {
		a.Kill = append(a.Kill, Kill{*present, message})
		a.StartInit = append(a.StartInit, c)
		return false
	}
	return probes.Started(pod, c, present.ID)
}

// containers decides for the app containers and counts those that stay as they are.
func (a *Actions) containers(pod *corev1.Pod, state *podstate.Pod, probes Probes) (keep int) {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		present := a.current(state, c.Name)
		switch {
		case present == nil:
			if old := state.Container(c.Name); old != nil && finished(pod, old) {
				continue
			}
			a.Start = append(a.Start, c)
		case present.State == runtime.Created:
			a.Remove = append(a.Remove, *present)
			a.Start = append(a.Start, c)
		case present.State == runtime.Unknown:
			a.Kill = append(a.Kill, Kill{*present, fmt.Sprintf("Container is in %q state, try killing it before restart", present.State)})
			a.Start = append(a.Start, c)
		case present.State == runtime.Exited:
			if !finished(pod, present) {
				a.Start = append(a.Start, c)
			}
		default:
			message, kill := mustEnd(c, present, probes, "Container")
			if !kill {
				keep++
				continue
			}
			restart := pod.Spec.RestartPolicy != corev1.RestartPolicyNever || Hash(c) != present.Annotations[AnnotationHash]
			if restart {
				message += ", will be restarted"
				a.Start = append(a.Start, c)
			}
			a.Kill = append(a.Kill, Kill{*present, message})
		}
	}
	return keep
}

// mustEnd reports whether a running container has to be stopped, and why, in Kubernetes' words.
func mustEnd(c *corev1.Container, present *runtime.Container, probes Probes, what string) (string, bool) {
	if hash, known := present.Annotations[AnnotationHash]; known && hash != Hash(c) {
		return fmt.Sprintf("%s %s definition changed", what, c.Name), true
	}
	if probe, failed := probes.Failed(present.ID); failed {
		return fmt.Sprintf("%s %s failed %s probe", what, c.Name, probe), true
	}
	return "", false
}

// IsSidecar reports whether an init container is restartable and so runs alongside the app
// containers.
func IsSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
