package status_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = metav1.Unix(1000, 0)

func spec(policy corev1.RestartPolicy, init, apps int) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u", Generation: 2},
		Spec:       corev1.PodSpec{RestartPolicy: policy},
	}
	for i := range init {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: fmt.Sprintf("i%d", i)})
	}
	for i := range apps {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprintf("c%d", i)})
	}
	return p
}

func running(name string) runtime.Container {
	return runtime.Container{ID: "id-" + name, PodUID: "u", Name: name, State: runtime.Running, StartedAt: time.Unix(900, 0), CreatedAt: time.Unix(899, 0), Image: "image", ImageID: "image@sha256:1"}
}

func exited(name string, code int32) runtime.Container {
	c := running(name)
	c.State, c.ExitCode, c.FinishedAt = runtime.Exited, code, time.Unix(950, 0)
	return c
}

func input(pod *corev1.Pod, old corev1.PodStatus, containers ...runtime.Container) status.Input {
	state := podstate.Group([]runtime.Sandbox{{ID: "box", PodUID: "u", Ready: true, IPs: []string{"10.0.0.1"}}}, containers)["u"]
	return status.Input{
		Pod: pod, Old: &old, State: state, RuntimeName: "containerd", HostIPs: []string{"192.0.2.1"},
		Waiting: func(string) (status.Reason, bool) { return status.Reason{}, false },
		Ready:   func(*corev1.Container, string) bool { return true },
		Started: func(*corev1.Container, string) bool { return true },
		Now:     now,
	}
}

func condition(s *corev1.PodStatus, t corev1.PodConditionType) string {
	for _, c := range s.Conditions {
		if c.Type == t {
			text := string(c.Status)
			if c.Reason != "" {
				text += " " + c.Reason
			}
			if c.Message != "" {
				text += ": " + c.Message
			}
			return text
		}
	}
	return "none"
}

func TestPhases(t *testing.T) {
	const always, onFailure, never = corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever
	cases := []struct {
		name       string
		pod        *corev1.Pod
		old        corev1.PodPhase
		ended      bool
		containers []runtime.Container
		want       corev1.PodPhase
		finished   bool
	}{
		{"nothing yet", spec(always, 0, 1), "", false, nil, corev1.PodPending, false},
		{"running", spec(always, 0, 1), "", false, []runtime.Container{running("c0")}, corev1.PodRunning, false},
		{"one of two", spec(always, 0, 2), "", false, []runtime.Container{running("c0")}, corev1.PodPending, false},
		{"an init container runs", spec(always, 1, 1), "", false, []runtime.Container{running("i0")}, corev1.PodPending, false},
		{"an init container failed, never", spec(never, 1, 1), corev1.PodPending, false, []runtime.Container{exited("i0", 1)}, corev1.PodPending, true},
		{"an init container failed, on failure", spec(onFailure, 1, 1), "", false, []runtime.Container{exited("i0", 1)}, corev1.PodPending, false},
		{"crashed, always", spec(always, 0, 1), "", false, []runtime.Container{exited("c0", 1)}, corev1.PodRunning, false},
		{"succeeded, not stopped yet", spec(never, 0, 1), corev1.PodRunning, false, []runtime.Container{exited("c0", 0)}, corev1.PodRunning, true},
		{"succeeded", spec(never, 0, 1), corev1.PodRunning, true, []runtime.Container{exited("c0", 0)}, corev1.PodSucceeded, true},
		{"failed", spec(never, 0, 2), corev1.PodRunning, true, []runtime.Container{exited("c0", 0), exited("c1", 2)}, corev1.PodFailed, true},
		{"deleted while it ran", spec(always, 0, 1), corev1.PodRunning, true, []runtime.Container{exited("c0", 143)}, corev1.PodFailed, false},
		{"it never runs again", spec(always, 0, 1), corev1.PodFailed, false, []runtime.Container{running("c0")}, corev1.PodFailed, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in := input(c.pod, corev1.PodStatus{Phase: c.old}, c.containers...)
			if in.State == nil {
				t.Fatal("no state")
			}
			in.Ended = c.ended
			s := status.Generate(in)
			if s.Phase != c.want {
				t.Errorf("phase %s, want %s", s.Phase, c.want)
			}
			if got := !c.ended && status.Finished(in, s); !c.ended && got != c.finished {
				t.Errorf("finished %v, want %v", got, c.finished)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	pod := spec(corev1.RestartPolicyAlways, 1, 2)
	in := input(pod, corev1.PodStatus{}, exited("i0", 0), running("c0"))
	s := status.Generate(in)
	want := map[corev1.PodConditionType]string{
		corev1.PodReadyToStartContainers: "True",
		corev1.PodInitialized:            "True",
		corev1.ContainersReady:           "False ContainersNotReady: containers with unready status: [c1]",
		corev1.PodReady:                  "False ContainersNotReady: containers with unready status: [c1]",
		corev1.PodScheduled:              "True",
	}
	for kind, text := range want {
		if got := condition(s, kind); got != text {
			t.Errorf("%s is %q, want %q", kind, got, text)
		}
	}
	if got := s.ContainerStatuses[1].State.Waiting; got == nil || got.Reason != "PodInitializing" {
		t.Errorf("c1 waits for %+v", got)
	}
	in = input(pod, *s, running("i0"))
	if got := condition(status.Generate(in), corev1.PodInitialized); got != "False ContainersNotInitialized: containers with incomplete status: [i0]" {
		t.Errorf("Initialized is %q", got)
	}
}

func TestTransitionTimesAndOthersConditionsStay(t *testing.T) {
	pod := spec(corev1.RestartPolicyAlways, 0, 1)
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/up"}}
	early := metav1.Unix(10, 0)
	old := corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: early},
		{Type: "example.com/up", Status: corev1.ConditionTrue, LastTransitionTime: early},
	}}
	s := status.Generate(input(pod, old, running("c0")))
	for _, c := range s.Conditions {
		switch c.Type {
		case corev1.PodReady, "example.com/up":
			if c.Status != corev1.ConditionTrue || !c.LastTransitionTime.Equal(&early) {
				t.Errorf("%+v", c)
			}
		default:
			if !c.LastTransitionTime.Equal(&now) {
				t.Errorf("%+v", c)
			}
		}
	}
	old.Conditions = nil
	if got := condition(status.Generate(input(pod, old, running("c0"))), corev1.PodReady); got != `False ReadinessGatesNotReady: corresponding condition of pod readiness gate "example.com/up" does not exist.` {
		t.Errorf("Ready is %q", got)
	}
}

func TestContainerStatuses(t *testing.T) {
	pod := spec(corev1.RestartPolicyAlways, 0, 1)
	crashed := exited("c0", 137)
	crashed.Reason = "OOMKilled"
	in := input(pod, corev1.PodStatus{}, crashed)
	in.Waiting = func(string) (status.Reason, bool) {
		return status.Reason{Reason: "CrashLoopBackOff", Message: "back-off"}, true
	}
	cs := status.Generate(in).ContainerStatuses[0]
	if cs.State.Waiting == nil || cs.State.Waiting.Reason != "CrashLoopBackOff" || cs.LastTerminationState.Terminated.Reason != "OOMKilled" {
		t.Errorf("backing off: %+v", cs)
	}

	again := running("c0")
	again.ID, again.Attempt, again.CreatedAt = "id-2", 1, time.Unix(960, 0)
	cs = status.Generate(input(pod, corev1.PodStatus{}, crashed, again)).ContainerStatuses[0]
	if cs.RestartCount != 1 || cs.ContainerID != "containerd://id-2" || cs.LastTerminationState.Terminated.ContainerID != "containerd://id-c0" ||
		!cs.Ready || !*cs.Started || cs.State.Running.StartedAt.Unix() != 900 {
		t.Errorf("restarted: %+v", cs)
	}

	old := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		Name: "c0", RestartCount: 3, ContainerID: "containerd://lost", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}}
	cs = status.Generate(input(pod, old)).ContainerStatuses[0]
	if cs.State.Waiting == nil || cs.RestartCount != 3 || cs.LastTerminationState.Terminated.Reason != "ContainerStatusUnknown" {
		t.Errorf("lost: %+v", cs)
	}

	in = input(pod, corev1.PodStatus{}, running("c0"))
	in.Started = func(*corev1.Container, string) bool { return false }
	if cs = status.Generate(in).ContainerStatuses[0]; cs.Ready || *cs.Started {
		t.Errorf("not started: %+v", cs)
	}
}

// TestInitContainersAreReadyWhenDone: only a sidecar is ready while it runs.
func TestInitContainersAreReadyWhenDone(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	for _, c := range []struct {
		name      string
		sidecar   bool
		container runtime.Container
		want      bool
	}{
		{"running", false, running("i0"), false},
		{"done", false, exited("i0", 0), true},
		{"failed", false, exited("i0", 1), false},
		{"sidecar", true, running("i0"), true},
		{"ended sidecar", true, exited("i0", 0), false},
	} {
		pod := spec(corev1.RestartPolicyAlways, 1, 1)
		if c.sidecar {
			pod.Spec.InitContainers[0].RestartPolicy = &always
		}
		if got := status.Generate(input(pod, corev1.PodStatus{}, c.container)).InitContainerStatuses[0]; got.Ready != c.want {
			t.Errorf("%s: ready %v, want %v", c.name, got.Ready, c.want)
		}
	}
}

func TestQOSClass(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		l := corev1.ResourceList{}
		if cpu != "" {
			l[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			l[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return l
	}
	for want, r := range map[corev1.PodQOSClass]corev1.ResourceRequirements{
		corev1.PodQOSBestEffort: {},
		corev1.PodQOSGuaranteed: {Requests: list("1", "1Gi"), Limits: list("1000m", "1024Mi")},
		corev1.PodQOSBurstable:  {Requests: list("1", ""), Limits: list("2", "1Gi")},
	} {
		pod := spec(corev1.RestartPolicyAlways, 0, 1)
		pod.Spec.Containers[0].Resources = r
		if got := status.QOSClass(pod); got != want {
			t.Errorf("%+v is %s, want %s", r, got, want)
		}
	}
}

func writer(t *testing.T, api *fake.Client) *status.Writer {
	w := status.NewWriter(status.WriterConfig{Client: api, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Service: "test"})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal(what)
		}
	}
}

// withPod returns an API with one pod, and a function that reads the pod.
func withPod(t *testing.T) (api *fake.Client, pods client.Resource[*corev1.Pod], get func() *corev1.Pod) {
	api = fake.New(scheme.New(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, spec(corev1.RestartPolicyAlways, 0, 1))
	pods = client.Of[*corev1.Pod](api)
	return api, pods, func() *corev1.Pod {
		t.Helper()
		pod, err := pods.Get(t.Context(), "default", "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return pod
	}
}

func TestWriterWritesOnceAndRepairs(t *testing.T) {
	api, pods, get := withPod(t)
	w := writer(t, api)
	pod := get()
	// The scheduler has written a condition before.
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	pod, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := status.Generate(input(pod, pod.Status, running("c0")))
	w.Set(pod, s)
	eventually(t, "the status was never written", func() bool { return get().Status.Phase == corev1.PodRunning })
	var order []string
	for _, c := range get().Status.Conditions {
		order = append(order, string(c.Type))
	}
	if got := strings.Join(order, " "); got != "PodReadyToStartContainers Initialized Ready ContainersReady PodScheduled" {
		t.Errorf("the conditions are in the order %s", got)
	}
	written := get().ResourceVersion
	w.Set(pod, s.DeepCopy())
	w.Observe(get())

	// Another writer's condition stays; its change of one of ours is reverted.
	other := get()
	other.Status.Conditions = append(other.Status.Conditions, corev1.PodCondition{Type: "example.com/up", Status: corev1.ConditionTrue})
	other.Status.PodIP = ""
	if other.ResourceVersion != written {
		t.Error("an equal status was written again")
	}
	other, err = pods.UpdateStatus(t.Context(), other, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.Observe(other)
	eventually(t, "the status was not repaired", func() bool { return get().Status.PodIP == "10.0.0.1" })
	if got := condition(&get().Status, "example.com/up"); got != "True" {
		t.Errorf("the other writer's condition is %s", got)
	}
}

func TestWriterDeletesWhatIsFinished(t *testing.T) {
	pod := spec(corev1.RestartPolicyAlways, 0, 1)
	pod.Spec.NodeName = "n"
	api := fake.New(scheme.New(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, pod)
	pods := client.Of[*corev1.Pod](api)
	w := writer(t, api)
	grace := int64(30)
	if err := pods.Delete(t.Context(), "default", "web", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		t.Fatal(err)
	}
	current, err := pods.Get(t.Context(), "default", "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.Set(current, status.Generate(input(current, current.Status, exited("c0", 0))))
	eventually(t, "the status was never written", func() bool {
		p, err := pods.Get(t.Context(), "default", "web", metav1.GetOptions{})
		return err == nil && len(p.Status.ContainerStatuses) == 1
	})
	w.Finish(current)
	eventually(t, "the pod was never deleted", func() bool {
		_, err := pods.Get(t.Context(), "default", "web", metav1.GetOptions{})
		return err != nil
	})
}

// TestWriterWritesAgainAfterARestore: etcd was restored from a snapshot taken before the pod ran.
// So the watch reports the pod at an earlier revision than the writer knows.
func TestWriterWritesAgainAfterARestore(t *testing.T) {
	synctest.Test(t, writesAgainAfterARestore)
}

func writesAgainAfterARestore(t *testing.T) {
	api, pods, get := withPod(t)
	w := writer(t, api)
	before := get()
	w.Observe(before)
	w.Set(before, status.Generate(input(before, before.Status, running("c0"))))
	eventually(t, "the status was never written", func() bool { return get().Status.Phase == corev1.PodRunning })
	w.Observe(get())

	undo := func() {
		restored := get()
		restored.Status = before.Status
		if _, err := pods.UpdateStatus(t.Context(), restored, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	undo()
	w.Observe(before)
	eventually(t, "the status was not written again", func() bool { return get().Status.Phase == corev1.PodRunning })

	// The write may have been lost before the watch reported it, so that there is nothing to
	// report.
	undo()
	w.Recheck(time.Now())
	synctest.Wait()
	if get().Status.Phase == corev1.PodRunning {
		t.Error("the status was written again although the watch may still report the write")
	}
	w.Recheck(time.Now().Add(2 * time.Minute))
	eventually(t, "the status was not written a third time", func() bool { return get().Status.Phase == corev1.PodRunning })
}
