package podlifecycle

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/podworkers"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

func TestSync(t *testing.T) {
	const always, onFailure, never = corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever
	claim := func(pod *corev1.Pod) { pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }
	image := func(image string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = image }
	}
	pulls := func(policy corev1.PullPolicy) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Image, pod.Spec.Containers[0].ImagePullPolicy = "far:1", policy
		}
	}
	config := func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}},
		}}}
	}
	variable := func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "V", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Key: "k"},
		}}}
	}
	host := func(pod *corev1.Pod) { pod.Spec.HostNetwork = true }
	pullSecret := func(pod *corev1.Pod) { pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "none"}} }
	hook := func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"hook"}}}}
	}
	limit := func(seconds int64) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.ActiveDeadlineSeconds = &seconds
			pod.Status.StartTime = &metav1.Time{Time: time.Now().Add(-time.Minute)}
		}
	}
	clusterFirst := func(pod *corev1.Pod) { pod.Spec.DNSPolicy = corev1.DNSClusterFirst }
	const started = "Pulled Created Started"
	for _, c := range []struct {
		name   string
		pod    *corev1.Pod
		change func(*corev1.Pod)
		// have is the runtime's state, and faults has the calls that fail, as "call: error; call: error".
		have, faults string
		// did has the calls to the runtime, waits the reasons in the status, told the Events.
		did, waits, told string
		// outcome has "terminal", "kill", the time until a retry, and "error".
		outcome string
	}{
		{name: "a new pod", pod: podOf(always, "a", "b"), did: "run box-0, create a #0, start a, create b #0, start b",
			waits: "a=ContainerCreating b=ContainerCreating", told: started + " " + started},
		{name: "init containers first", pod: podOf(always, "i-1", "i-2", "a"), did: "run box-0, create i-1 #0, start i-1",
			waits: "i-1=PodInitializing i-2=PodInitializing a=PodInitializing", told: started},
		{name: "nothing to do", pod: podOf(always, "a"), have: "box a=Running"},
		{name: "the sandbox cannot be created", pod: podOf(always, "a"), faults: "run: no CNI", did: "run box-0",
			waits: "a=ContainerCreating", told: "FailedCreatePodSandBox", outcome: "error"},
		{name: "the sandbox's status cannot be read", pod: podOf(always, "a"), faults: "look: gone", did: "run box-0",
			waits: "a=ContainerCreating", told: "FailedPodSandBoxStatus", outcome: "error"},
		{name: "the sandbox died", pod: podOf(always, "a"), have: "deadbox a=Exited", did: "run box-1, create a #1, start a",
			told: "SandboxChanged " + started},
		{name: "the dead sandbox's container cannot be stopped", pod: podOf(always, "a"), have: "deadbox a=Running", faults: "stop a: busy",
			did: "stop a 30s", told: "SandboxChanged Killing", outcome: "error"},
		{name: "one cannot be created, the other starts", pod: podOf(always, "a", "b"), faults: "create a: no space",
			did: "run box-0, create a #0, create b #0, start b", waits: "a=CreateContainerError b=ContainerCreating",
			told: "Pulled Failed " + started, outcome: "error"},
		{name: "one cannot be started", pod: podOf(always, "a"), faults: "start a: no such file", did: "run box-0, create a #0, start a",
			waits: "a=RunContainerError", told: "Pulled Created Failed", outcome: "error"},
		{name: "a container ended", pod: podOf(always, "a"), have: "box a=Exited:1", did: "create a #1, start a", told: started},
		{name: "a container ended for good", pod: podOf(onFailure, "a", "b"), have: "box a=Exited b=Running"},
		{name: "all ended for good", pod: podOf(never, "a"), have: "box a=Exited:1", outcome: "terminal"},
		{name: "the definition changed", pod: podOf(always, "a"), change: image("other:1"), have: "box a=Running", faults: "pull other:1: x",
			did: "stop a 30s, pull other:1", told: "Killing Pulling Failed Failed", outcome: "3s error"},
		{name: "a created container never ran", pod: podOf(always, "a"), have: "box a=Created", did: "remove a, create a #0, start a",
			waits: "a=ContainerCreating", told: started},
		{name: "it cannot be removed", pod: podOf(always, "a"), have: "box a=Created", faults: "remove a: busy", did: "remove a",
			waits: "a=ContainerCreating", outcome: "error"},
		{name: "no network", pod: podOf(always, "a"), faults: "network: no CNI config", waits: "a=ContainerCreating", told: "NetworkNotReady",
			outcome: "1s error"},
		{name: "no network is needed", pod: podOf(always, "a"), change: host, faults: "network: no CNI config",
			did: "run box-0, create a #0, start a", waits: "a=ContainerCreating", told: started},
		{name: "a field that is not supported", pod: podOf(always, "i-1", "a"), change: claim, told: "UnsupportedField",
			waits: "i-1=CreateContainerConfigError a=CreateContainerConfigError"},
		{name: "it came to a running pod", pod: podOf(always, "a"), change: claim, have: "box a=Running", told: "UnsupportedField"},
		{name: "a volume without its source", pod: podOf(always, "a"), change: config, waits: "a=ContainerCreating", told: "FailedMount",
			outcome: "2s error"},
		{name: "containers without their volume only end", pod: podOf(always, "a", "b"), change: func(pod *corev1.Pod) {
			config(pod)
			pod.Spec.Containers[0].Image = "other:1"
		}, have: "box a=Running b=Exited", did: "stop a 30s", told: "FailedMount Killing", outcome: "2s error"},
		{name: "a variable without its source", pod: podOf(always, "a", "b"), change: variable, did: "run box-0, create b #0, start b",
			waits: "a=CreateContainerConfigError b=ContainerCreating", told: "Pulled Failed " + started, outcome: "5s error"},
		{name: "an image that is pulled", pod: podOf(always, "a"), change: pulls(""), did: "run box-0, pull far:1, create a #0, start a",
			waits: "a=ContainerCreating", told: "Pulling " + started},
		{name: "an image that may not be pulled", pod: podOf(always, "a"), change: pulls(corev1.PullNever), did: "run box-0",
			waits: "a=ErrImageNeverPull", told: "ErrImageNeverPull Failed", outcome: "error"},
		{name: "no image", pod: podOf(always, "a"), change: image("UPPER"), did: "run box-0", waits: "a=InvalidImageName",
			told: "InspectFailed Failed", outcome: "error"},
		{name: "a pull secret is missing", pod: podOf(always, "a"), change: pullSecret, did: "run box-0, create a #0, start a",
			waits: "a=ContainerCreating", told: "FailedToRetrieveImagePullSecret " + started},
		{name: "a postStart hook", pod: podOf(always, "a"), change: hook, did: "run box-0, create a #0, start a, exec hook",
			waits: "a=ContainerCreating", told: started},
		{name: "a postStart hook fails", pod: podOf(always, "a"), change: hook, faults: "exec hook: exit 1",
			did: "run box-0, create a #0, start a, exec hook, stop a 30s", waits: "a=PostStartHookError",
			told: started + " FailedPostStartHook Killing", outcome: "error"},
		{name: "its container cannot be stopped", pod: podOf(always, "a"), change: hook, faults: "exec hook: exit 1; stop a: busy",
			did: "run box-0, create a #0, start a, exec hook, stop a 30s", waits: "a=ContainerCreating",
			told: started + " FailedPostStartHook Killing", outcome: "error"},
		{name: "the deadline is near", pod: podOf(always, "a"), change: limit(90), have: "box a=Running", outcome: "30s"},
		{name: "the deadline has passed", pod: podOf(always, "a"), change: limit(60), have: "box a=Running", told: "DeadlineExceeded",
			outcome: "terminal kill"},
		{name: "the cluster's DNS is unknown", pod: podOf(always, "a"), change: clusterFirst, did: "run box-0, create a #0, start a",
			waits: "a=ContainerCreating", told: "MissingClusterDNS " + started},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				pod := c.pod
				w.have(pod, c.have)
				if c.change != nil {
					c.change(pod)
				}
				w.fail(c.faults)
				outcome, err := w.Sync(t.Context(), podworkers.Create, pod, w.state())
				if got := w.did(); got != c.did {
					t.Errorf("it did %q, want %q", got, c.did)
				}
				if got := w.waits(pod); got != c.waits {
					t.Errorf("the status is %q, want %q", got, c.waits)
				}
				if got := w.told(); got != c.told {
					t.Errorf("the Events are %q, want %q", got, c.told)
				}
				if got := showOutcome(outcome, err); got != c.outcome {
					t.Errorf("the outcome is %q (%v), want %q", got, err, c.outcome)
				}
				if c.did != "" && w.changed == 0 {
					t.Error("it did not report that it changed something")
				}
			})
		})
	}
}

// fail sets the faults of calls.
func (w *world) fail(text string) {
	clear(w.faults)
	for part := range strings.SplitSeq(text, "; ") {
		call, fault, ok := strings.Cut(part, ": ")
		switch {
		case call == "network":
			w.network = textError(fault)
		case ok:
			w.faults[call] = fault
		}
	}
}

type textError string

func (e textError) Error() string { return string(e) }

func showOutcome(outcome podworkers.Outcome, err error) string {
	var parts []string
	if outcome.Terminal {
		parts = append(parts, "terminal")
	}
	if outcome.Kill != nil {
		parts = append(parts, "kill")
	}
	if outcome.RetryAfter != 0 {
		parts = append(parts, outcome.RetryAfter.String())
	}
	if err != nil {
		parts = append(parts, "error")
	}
	return strings.Join(parts, " ")
}

// TestCrashLoop lets a container crash again and again, and then run for long.
func TestCrashLoop(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		pod := podOf(corev1.RestartPolicyAlways, "a", "b")
		crash := func(ran time.Duration) {
			w.containers = nil
			w.have(pod, "b=Running")
			w.have(pod, "a=Exited:1")
			w.containers[1].FinishedAt = time.Now()
			w.containers[1].StartedAt = time.Now().Add(-ran)
		}
		w.have(pod, "box")
		for i, want := range []time.Duration{0, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second,
			300 * time.Second, 300 * time.Second} {
			crash(time.Second)
			began := time.Now()
			for range 2 {
				outcome, err := w.Sync(t.Context(), podworkers.Sync, pod, w.state())
				if err != nil {
					t.Fatalf("crash %d: %v", i, err)
				}
				if outcome.RetryAfter == 0 {
					break
				}
				if got := w.did() + w.waits(pod); got != "a=CrashLoopBackOff" {
					t.Errorf("crash %d: it did and shows %q", i, got)
				}
				<-time.After(outcome.RetryAfter)
			}
			if got := w.did(); got != "create a #1, start a" {
				t.Errorf("crash %d: it did %q", i, got)
			}
			if got := time.Since(began); got != want {
				t.Errorf("crash %d: it waited %v, want %v", i, got, want)
			}
		}
		// It ran for so long that the wait starts over; so does a container with another image.
		<-time.After(time.Hour)
		crash(time.Hour)
		if _, err := w.Sync(t.Context(), podworkers.Sync, pod, w.state()); err != nil || w.did() != "create a #1, start a" {
			t.Errorf("after a long run: %v", err)
		}
		crash(time.Second)
		w.images["mended:1"] = runtime.Image{ID: "mended"}
		pod.Spec.Containers[0].Image = "mended:1"
		_, err := w.Sync(t.Context(), podworkers.Update, pod, w.state())
		if got := w.did(); err != nil || got != "create a #1, start a" {
			t.Errorf("with another image it did %q, %v", got, err)
		}
	})
}

// TestPullsBackOff: the status shows the failed pull before the back-off, and the sync fails only
// for the pull.
func TestPullsBackOff(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		pod := podOf(corev1.RestartPolicyAlways, "a")
		w.have(pod, "box")
		pod.Spec.Containers[0].Image = "far:1"
		for _, step := range []struct{ fault, did, waits, outcome string }{
			{"not authorized", "pull far:1", "a=ErrImagePull", "3s error"},
			{"", "", "a=ImagePullBackOff", "7s"},
			{"not authorized", "pull far:1", "a=ErrImagePull", "3s error"},
			{"", "", "a=ImagePullBackOff", "17s"},
			{"", "pull far:1, create a #0, start a", "a=ContainerCreating", ""},
		} {
			w.fail("pull far:1: " + step.fault)
			if step.fault == "" {
				w.fail("")
			}
			outcome, err := w.Sync(t.Context(), podworkers.Sync, pod, w.state())
			if did, waits, got := w.did(), w.waits(pod), showOutcome(outcome, err); did != step.did || waits != step.waits || got != step.outcome {
				t.Errorf("it did %q, shows %q, outcome %q; want %+v", did, waits, got, step)
			}
			<-time.After(outcome.RetryAfter)
		}
	})
}

// TestKilledWhileStarting: a pod is told to terminate in the middle of a call. The call ends, and
// neither an Event nor a reason calls it a failure.
func TestKilledWhileStarting(t *testing.T) {
	for call, want := range map[string]string{
		"run": "run box-0", "create a": "run box-0, create a #0", "start a": "run box-0, create a #0, start a",
		"pull far:1": "run box-0",
	} {
		t.Run(call, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				pod := podOf(corev1.RestartPolicyAlways, "a")
				if strings.HasPrefix(call, "pull") {
					pod.Spec.Containers[0].Image = "far:1"
				}
				ctx, kill := newCancel(t)
				w.during[call] = kill
				w.takes[call] = patience / 2
				w.faults[call] = "killed"
				if _, err := w.Sync(ctx, podworkers.Create, pod, w.state()); err == nil {
					t.Error("the sync did not fail")
				}
				if got := w.did(); got != want {
					t.Errorf("it did %q, want %q", got, want)
				}
				if got := w.told(); strings.Contains(got, "Fail") {
					t.Errorf("the Events are %q", got)
				}
				if got := w.waits(pod); got != "a=ContainerCreating" {
					t.Errorf("the status is %q", got)
				}
			})
		})
	}
}
