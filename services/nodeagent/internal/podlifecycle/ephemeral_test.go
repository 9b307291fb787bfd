package podlifecycle

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/podworkers"
)

func TestEphemeralContainers(t *testing.T) {
	const always, never = corev1.RestartPolicyAlways, corev1.RestartPolicyNever
	one := func(change func(*corev1.EphemeralContainer)) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { change(&pod.Spec.EphemeralContainers[0]) }
	}
	sees := func(target string) func(*corev1.Pod) {
		return one(func(c *corev1.EphemeralContainer) { c.TargetContainerName = target })
	}
	image := func(image string, policy corev1.PullPolicy) func(*corev1.Pod) {
		return one(func(c *corev1.EphemeralContainer) { c.Image, c.ImagePullPolicy = image, policy })
	}
	terminal := one(func(c *corev1.EphemeralContainer) {
		c.Stdin, c.StdinOnce, c.TTY, c.Command = true, true, true, []string{"sh"}
	})
	devices := one(func(c *corev1.EphemeralContainer) { c.VolumeDevices = []corev1.VolumeDevice{{Name: "v"}} })
	ran := func(pod *corev1.Pod) {
		pod.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "e-1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	}
	config := func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}},
		}}}
	}
	const started = "Pulled Created Started"
	for _, c := range []struct {
		name         string
		pod          *corev1.Pod
		change       func(*corev1.Pod)
		have, faults string
		// did, waits, told and outcome are those of TestSync.
		did, waits, told, outcome string
		// target is the container whose processes it sees.
		target string
	}{
		{name: "beside a container that runs", pod: podOf(always, "a", "e-1"), have: "box a=Running", did: "create e-1 #0, start e-1",
			waits: "e-1=ContainerCreating", told: started},
		{name: "with a terminal", pod: podOf(always, "a", "e-1"), change: terminal, have: "box a=Running", did: "create e-1 #0, start e-1",
			waits: "e-1=ContainerCreating", told: started},
		{name: "before the init containers are done", pod: podOf(always, "i-1", "a", "e-1"), have: "box i-1=Running", did: "create e-1 #0, start e-1",
			waits: "a=PodInitializing e-1=PodInitializing", told: started},
		{name: "it sees a container", pod: podOf(always, "a", "e-1"), change: sees("a"), have: "box a=Running", did: "create e-1 #0, start e-1",
			waits: "e-1=ContainerCreating", told: started, target: "id-a"},
		{name: "its target has ended", pod: podOf(never, "a", "b", "e-1"), change: sees("a"), have: "box a=Exited b=Running",
			faults: "create e-1: not running", did: "create e-1 #0", waits: "e-1=CreateContainerError", told: "Pulled Failed", outcome: "error", target: "id-a"},
		{name: "its target is not there yet", pod: podOf(always, "i-1", "a", "e-1"), change: sees("a"), have: "box i-1=Running",
			waits: "a=PodInitializing e-1=CreateContainerConfigError", told: "Pulled Failed", outcome: "5s error"},
		{name: "its image is pulled", pod: podOf(always, "a", "e-1"), change: image("far:1", ""), have: "box a=Running",
			did: "pull far:1, create e-1 #0, start e-1", waits: "e-1=ContainerCreating", told: "Pulling " + started},
		{name: "its image may not be pulled", pod: podOf(always, "a", "e-1"), change: image("far:1", corev1.PullNever), have: "box a=Running",
			waits: "e-1=ErrImageNeverPull", told: "ErrImageNeverPull Failed", outcome: "error"},
		{name: "it keeps nothing from its restart", pod: podOf(always, "a", "e-1"), have: "box a=Exited:1", faults: "create e-1: no space",
			did: "create e-1 #0, create a #1, start a", waits: "e-1=CreateContainerError", told: "Pulled Failed " + started, outcome: "error"},
		{name: "it runs", pod: podOf(always, "a", "e-1"), have: "box a=Running e-1=Running"},
		{name: "it failed", pod: podOf(always, "a", "e-1"), have: "box a=Running e-1=Exited:1"},
		{name: "it was removed from the runtime", pod: podOf(always, "a", "e-1"), change: ran, have: "box a=Running"},
		{name: "an earlier agent created it", pod: podOf(always, "a", "e-1"), have: "box a=Running e-1=Created", did: "start e-1",
			waits: "e-1=ContainerCreating", told: "Started"},
		{name: "an earlier agent started it meanwhile", pod: podOf(always, "a", "e-1"), have: "box a=Running e-1=Created", faults: "start e-1: it runs",
			did: "start e-1", waits: "e-1=RunContainerError", told: "Failed", outcome: "error"},
		{name: "it does not keep the pod", pod: podOf(never, "a", "e-1"), have: "box a=Exited e-1=Running", outcome: "terminal"},
		{name: "a failed pod", pod: podOf(never, "a", "e-1"), have: "box a=Exited:1", waits: "e-1=ContainerCreating", outcome: "terminal"},
		{name: "the sandbox died with it", pod: podOf(always, "a", "e-1"), have: "deadbox a=Exited e-1=Exited", did: "run box-1, create a #1, start a",
			told: "SandboxChanged " + started},
		{name: "a volume of the pod is not there", pod: podOf(always, "a", "e-1"), change: config, have: "box a=Running",
			waits: "e-1=ContainerCreating", told: "FailedMount", outcome: "2s error"},
		{name: "a field that is not supported", pod: podOf(always, "a", "e-1"), change: devices, have: "box a=Running",
			waits: "e-1=CreateContainerConfigError", told: "UnsupportedField"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.have(c.pod, c.have)
				if c.change != nil {
					c.change(c.pod)
				}
				w.fail(c.faults)
				outcome, err := w.Sync(t.Context(), podworkers.Sync, c.pod, w.state())
				if did, waits := w.did(), w.waits(c.pod); did != c.did || waits != c.waits {
					t.Errorf("it did %q, want %q; the status is %q, want %q", did, c.did, waits, c.waits)
				}
				if got := w.told(); got != c.told {
					t.Errorf("the Events are %q, want %q", got, c.told)
				}
				if got := showOutcome(outcome, err); got != c.outcome {
					t.Errorf("the outcome is %q (%v), want %q", got, err, c.outcome)
				}
				cfg := w.configs["e-1"]
				if wanted := c.pod.Spec.EphemeralContainers[0]; cfg.Name != "" && (cfg.TargetID != c.target || cfg.TTY != wanted.TTY ||
					cfg.Stdin != wanted.Stdin || cfg.StdinOnce != wanted.StdinOnce || len(cfg.Command) != len(wanted.Command)) {
					t.Errorf("it was created as %+v", cfg)
				}
			})
		})
	}
}

// TestUnsupportedEphemeralIsToldOnce: an ephemeral container that the node cannot run is reported once.
func TestUnsupportedEphemeralIsToldOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		pod := podOf(corev1.RestartPolicyAlways, "a", "e-1")
		pod.Spec.EphemeralContainers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "v"}}
		w.have(pod, "box a=Running")
		for _, want := range []string{"UnsupportedField", "", ""} {
			if _, err := w.Sync(t.Context(), podworkers.Sync, pod, w.state()); err != nil {
				t.Fatal(err)
			}
			if got := w.told(); got != want {
				t.Errorf("the Events are %q, want %q", got, want)
			}
		}
		const message = "this node agent does not support: spec.ephemeralContainers[0].volumeDevices"
		if got := w.cfg.Status.Get(pod).EphemeralContainerStatuses[0].State.Waiting.Message; got != message {
			t.Errorf("the message is %q", got)
		}
	})
}

// TestTargetIsTriedAgain: an ephemeral container starts when its target has come.
func TestTargetIsTriedAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		pod := podOf(corev1.RestartPolicyAlways, "i-1", "a", "e-1")
		pod.Spec.EphemeralContainers[0].TargetContainerName = "a"
		w.have(pod, "box i-1=Running")
		if _, err := w.Sync(t.Context(), podworkers.Sync, pod, w.state()); err == nil {
			t.Error("the sync did not fail")
		}
		waiting := w.cfg.Status.Get(pod).EphemeralContainerStatuses[0].State.Waiting
		if waiting == nil || waiting.Reason != reasonConfigError || waiting.Message != "unable to find target container a" {
			t.Errorf("it waits because of %+v", waiting)
		}
		w.have(pod, "a=Running")
		if _, err := w.Sync(t.Context(), podworkers.Sync, pod, w.state()); err != nil {
			t.Error(err)
		}
		if got := w.did(); got != "create e-1 #0, start e-1" {
			t.Errorf("it did %q", got)
		}
		w.have(pod, "e-1=Running")
		if _, s := w.generate(t.Context(), pod, w.state(), false); s.EphemeralContainerStatuses[0].State.Running == nil {
			t.Errorf("the status is %+v", s.EphemeralContainerStatuses[0])
		}
	})
}

// TestEphemeralContainersEndWithThePod stops them like others, and removes those that never ran.
func TestEphemeralContainersEndWithThePod(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		pod := podOf(corev1.RestartPolicyAlways, "a", "e-1", "e-2")
		w.have(pod, "box a=Exited e-1=Running e-2=Created")
		if err := w.Terminate(t.Context(), pod, w.state(), 7, nil); err != nil {
			t.Fatal(err)
		}
		if got := w.did(); got != "stop e-1 7s, stop e-2 2s, remove e-2, halt box-0" {
			t.Errorf("it did %q", got)
		}
	})
}

func TestEphemeralContainersInThePod(t *testing.T) {
	pod := podOf(corev1.RestartPolicyAlways, "a", "i-1", "e-1")
	for name, want := range map[string]string{
		"a": "spec.containers{a}", "i-1": "spec.initContainers{i-1}", "e-1": "spec.ephemeralContainers{e-1}", "none": "",
	} {
		if got := ContainerReference(pod, name).FieldPath; got != want {
			t.Errorf("the field of %s is %q", name, got)
		}
	}
	l := newLifecycle(t)
	for _, want := range []bool{false, true} {
		if cfg := l.sandboxConfig(pod, 0); cfg.Privileged != want || len(cfg.PortMappings) != 0 {
			t.Errorf("the sandbox's configuration is %+v, want one that is privileged: %v", cfg, want)
		}
		pod.Spec.EphemeralContainers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	}
}

// TestCollectKeepsEphemeralContainers: what is left of an ephemeral container shows how it ended.
func TestCollectKeepsEphemeralContainers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		pod := podOf(corev1.RestartPolicyAlways, "a", "e-1", "e-2")
		w.have(pod, "deadbox e-1=Exited:3 a=Exited a=Exited box a=Exited e-2=Running a=Running")
		for i := range w.containers {
			w.containers[i].ID += strings.Repeat("x", i)
		}
		if err := w.Collect(t.Context(), w.state(), false); err != nil {
			t.Fatal(err)
		}
		if got := w.did(); got != "remove axx, remove ax" {
			t.Errorf("it did %q", got)
		}
		if err := w.Collect(t.Context(), w.state(), true); err != nil {
			t.Fatal(err)
		}
		if got := w.did(); !strings.Contains(got, "remove e-1") || !strings.Contains(got, "discard box-0") {
			t.Errorf("of a pod that is gone it did %q", got)
		}
	})
}
