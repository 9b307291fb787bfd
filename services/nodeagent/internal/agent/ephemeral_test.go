package agent_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/test/containers/harness"
)

// TestEphemeralContainers debugs pods of the simulated runtime.
func TestEphemeralContainers(t *testing.T) { testEphemeral(t, newWorld(t), nil) }

// debug adds an ephemeral container to a pod.
func (w *world) debug(pod, name string, change func(*corev1.EphemeralContainer)) {
	w.t.Helper()
	c := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: name, Image: "busybox:1.36", ImagePullPolicy: corev1.PullIfNotPresent,
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}}
	change(&c)
	w.change(pod, func(p *corev1.Pod) { p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, c) })
}

// ephemeral returns the status of an ephemeral container; an empty one if there is none.
func ephemeral(p *corev1.Pod, name string) corev1.ContainerStatus {
	i := slices.IndexFunc(p.Status.EphemeralContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
	if i < 0 {
		return corev1.ContainerStatus{}
	}
	return p.Status.EphemeralContainerStatuses[i]
}

// testEphemeral runs ephemeral containers beside a pod's own, while the agent restarts and the runtime
// loses what is left of them.
func testEphemeral(t *testing.T, w *world, _ *harness.Containers) {
	stop := w.start()
	pod := newPod("web")
	// The simulated runtime's containers end as the annotations say.
	pod.Annotations["simulated.garboard.io/exit-code.fails"] = "3"
	pod.Annotations["simulated.garboard.io/exit-code.sees"] = "0"
	pod.Annotations["simulated.garboard.io/fail-start.broken"] = "exec: not found"
	pod.Spec.TerminationGracePeriodSeconds = new(int64(1))
	pod.Spec.Containers[0] = corev1.Container{Name: "main", Image: "busybox:1.36", ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"sleep", "4321"}}
	w.create(pod)
	before := w.until("web", "ready", ready)

	command := func(words ...string) func(*corev1.EphemeralContainer) {
		return func(c *corev1.EphemeralContainer) { c.Command = words }
	}
	w.debug("web", "fails", command("sh", "-c", "echo bye > /dev/termination-log; echo said; exit 3"))
	w.debug("web", "stays", command("sleep", "1234"))
	w.debug("web", "broken", command("/no/such/program"))
	w.debug("web", "sees", func(c *corev1.EphemeralContainer) {
		c.Command, c.TargetContainerName = []string{"cat", "/proc/1/cmdline"}, "main"
	})
	w.until("web", "without the target of the next one", func(p *corev1.Pod) bool { return ephemeral(p, "sees").State.Terminated != nil })
	w.debug("web", "blind", func(c *corev1.EphemeralContainer) { c.TargetContainerName = "sees" })
	w.until("web", "with its ephemeral containers", func(p *corev1.Pod) bool {
		fails, broken, blind := ephemeral(p, "fails").State.Terminated, ephemeral(p, "broken"), ephemeral(p, "blind").State.Waiting
		return fails != nil && fails.ExitCode == 3 && fails.Reason == "Error" && ephemeral(p, "stays").State.Running != nil &&
			ephemeral(p, "sees").State.Terminated != nil && broken.State.Waiting != nil && broken.State.Waiting.Reason == "RunContainerError" &&
			broken.LastTerminationState.Terminated != nil && blind != nil && blind.Reason == "CreateContainerError" &&
			strings.Contains(blind.Message, "is not running - in state CONTAINER_EXITED")
	})
	for _, want := range []string{"Created: Container created", "Started: Container started", "Failed: Error: "} {
		w.hasEvent("web", want)
	}
	seen := w.get("web")
	if w.real {
		if got := ephemeral(seen, "fails").State.Terminated.Message; got != "bye\n" {
			t.Errorf("the termination message is %q", got)
		}
		handler := <-w.handler
		if got := w.log(handler, "web", "fails", &corev1.PodLogOptions{}); got != "said\n" {
			t.Errorf("the log is %q", got)
		}
		if got := w.log(handler, "web", "sees", &corev1.PodLogOptions{}); !strings.HasPrefix(got, "sleep\x004321") {
			t.Errorf("it saw %q", got)
		}
	}

	stop()
	removed := map[string]bool{}
	for _, c := range w.containersOf(before) {
		if c.Name == "fails" || c.Name == "stays" {
			removed[c.ID] = true
			if err := w.runtime.RemoveContainer(t.Context(), c.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(removed) != 2 {
		t.Fatalf("there were %d containers to remove", len(removed))
	}
	w.start()
	w.until("web", "shown without what was removed", func(p *corev1.Pod) bool {
		lost := ephemeral(p, "stays").State.Terminated
		return lost != nil && lost.Reason == "ContainerStatusUnknown" && lost.ExitCode == 137
	})
	// An ephemeral container that comes later is started, so nothing else was still to do.
	w.debug("web", "later", command("sleep", "1234"))
	after := w.until("web", "with one more", func(p *corev1.Pod) bool { return ephemeral(p, "later").State.Running != nil })
	if s := ephemeral(after, "fails"); s.State.Terminated == nil || s.State.Terminated.ExitCode != 3 || s.ContainerID != ephemeral(seen, "fails").ContainerID {
		t.Errorf("what is left of the removed container is %+v", s)
	}
	number := map[string]int{}
	for _, c := range w.containersOf(before) {
		number[c.Name]++
	}
	for name, want := range map[string]int{"fails": 0, "stays": 0, "sees": 1, "broken": 1, "later": 1, "main": 1} {
		if number[name] != want {
			t.Errorf("the runtime has %d containers %s, want %d", number[name], name, want)
		}
	}
	if !ready(after) || after.Status.Phase != corev1.PodRunning || after.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID ||
		after.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod's own container is %+v", after.Status.ContainerStatuses)
	}
	w.remove("web")

	// A pod ends while only an ephemeral container runs.
	short := newPod("short")
	short.Annotations["simulated.garboard.io/exit-after.main"] = "3s"
	short.Spec.RestartPolicy, short.Spec.TerminationGracePeriodSeconds = corev1.RestartPolicyNever, new(int64(1))
	short.Spec.Containers[0] = corev1.Container{Name: "main", Image: "busybox:1.36", ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"sleep", "3"}}
	w.create(short)
	w.until("short", "ready", ready)
	w.debug("short", "stays", command("sleep", "1234"))
	ended := w.until("short", "at its end", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded && ephemeral(p, "stays").State.Running == nil
	})
	if s := ephemeral(ended, "stays"); s.State.Terminated == nil {
		t.Errorf("the ephemeral container of an ended pod is %+v", s)
	}
	if slices.ContainsFunc(w.containers(), func(c runtime.Container) bool { return c.PodName == "short" && c.State == runtime.Running }) {
		t.Error("containers of the ended pod run")
	}
	w.remove("short")
}
