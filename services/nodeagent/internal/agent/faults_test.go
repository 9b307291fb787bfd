package agent_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// TestContainerThatWasNeverStarted: an agent was killed between creating a container and starting
// it.
func TestContainerThatWasNeverStarted(t *testing.T) {
	w := newWorld(t)
	pod := w.create(newPod("half"))
	sandbox := runtime.SandboxConfig{
		Name: pod.Name, Namespace: pod.Namespace, UID: string(pod.UID),
		LogDirectory: filepath.Join(w.dir, "logs", "pods", "default_half_"+string(pod.UID)),
	}
	box, err := w.runtime.RunSandbox(t.Context(), sandbox)
	if err != nil {
		t.Fatal(err)
	}
	image, err := w.runtime.PullImage(t.Context(), "nginx:1.14.2", runtime.Auth{}, runtime.SandboxConfig{})
	if err != nil {
		t.Fatal(err)
	}
	left, err := w.runtime.CreateContainer(t.Context(), box, runtime.ContainerConfig{Name: "nginx", Image: image, LogPath: "nginx/0.log"}, sandbox)
	if err != nil {
		t.Fatal(err)
	}
	w.start()
	got := w.until("half", "ready", ready)
	if n := got.Status.ContainerStatuses[0].RestartCount; n != 0 {
		t.Errorf("restart count %d", n)
	}
	list := w.containers()
	if len(list) != 1 || list[0].ID == left || list[0].SandboxID != box {
		t.Errorf("containers: %+v", list)
	}
}

func TestLivenessRestarts(t *testing.T) {
	w := newWorld(t)
	w.start()
	pod := newPod("sick")
	pod.Annotations["simulated.garboard.io/exec-code"] = "1"
	pod.Annotations["simulated.garboard.io/log"] = "hello"
	pod.Spec.Containers[0].LivenessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"check"}}},
		PeriodSeconds: 1, FailureThreshold: 1,
	}
	w.create(pod)
	w.until("sick", "restarted", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount >= 1
	})
	w.hasEvent("sick", "Unhealthy: Liveness probe failed: ")
	w.hasEvent("sick", "Killing: Container nginx failed liveness probe, will be restarted")

	handler := <-w.handler
	tail := int64(1)
	if got := w.log(handler, "sick", "nginx", &corev1.PodLogOptions{Previous: true, TailLines: &tail}); got != "hello\n" {
		t.Errorf("the previous log: %q", got)
	}
	for _, missing := range []struct {
		pod, container string
		code           int
		words          string
	}{
		{"sick", "other", http.StatusBadRequest, `previous terminated container \"other\" in pod \"sick\" not found`},
		{"gone", "c", http.StatusNotFound, `pods \"gone\" not found`},
	} {
		code, body := w.askLog(handler, missing.pod, missing.container, &corev1.PodLogOptions{Previous: true})
		if code != missing.code || !strings.Contains(body, missing.words) {
			t.Errorf("%s in %s: %d %s", missing.container, missing.pod, code, body)
		}
	}
}

func TestDeadline(t *testing.T) {
	w := newWorld(t)
	w.start()
	pod := newPod("late")
	seconds := int64(1)
	pod.Spec.ActiveDeadlineSeconds = &seconds
	w.create(pod)
	got := w.until("late", "Failed", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if got.Status.Reason != "DeadlineExceeded" {
		t.Errorf("status: %+v", got.Status)
	}
	w.eventually("nothing runs", func() string {
		for _, c := range w.containers() {
			if c.State == runtime.Running {
				return c.Name
			}
		}
		return ""
	})
}

func TestSidecarBesideAJob(t *testing.T) {
	w := newWorld(t)
	w.start()
	always := corev1.ContainerRestartPolicyAlways
	pod := newPod("job")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "proxy", Image: "proxy", RestartPolicy: &always},
		{Name: "prepare", Image: "busybox"},
	}
	pod.Annotations["simulated.garboard.io/exit-after.nginx"] = "500ms"
	w.create(pod)
	// The running state may be written together with the end.
	got := w.until("job", "Succeeded", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	if s := got.Status.InitContainerStatuses[0].State; s.Terminated == nil {
		t.Errorf("the sidecar: %+v", s)
	}
}

func TestDeletedBeforeItStarted(t *testing.T) {
	w := newWorld(t)
	w.start()
	pod := newPod("early")
	pod.Annotations["simulated.garboard.io/fail-pull"] = "true"
	w.create(pod)
	w.until("early", "waiting for its image", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
			strings.Contains(p.Status.ContainerStatuses[0].State.Waiting.Reason, "Pull")
	})
	if err := w.pods().Delete(t.Context(), "default", "early", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the pod is gone", func() string {
		if w.get("early") != nil {
			return "it is still there"
		}
		return ""
	})
}

func TestHooksAndVolumes(t *testing.T) {
	w := newWorld(t)
	w.start()
	pod := newPod("hooks")
	// The hook fails by itself, not because of a timeout.
	grace := int64(120)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	pod.Annotations["simulated.garboard.io/exec-code"] = "7"
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{
		PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: "127.0.0.1", Port: intstr.FromInt32(1)}},
	}
	pod.Spec.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
	}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets", ReadOnly: true}}
	created := w.create(pod)
	w.until("hooks", "ready", ready)
	dir := filepath.Join(w.dir, "pods", string(created.UID), "volumes", "kubernetes.io~projected", "token", "token")
	if matches, err := filepath.Glob(dir); err != nil || len(matches) != 1 {
		t.Errorf("no token: %v, %v", matches, err)
	}
	if err := w.pods().Delete(t.Context(), "default", "hooks", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the pod is gone", func() string {
		if w.get("hooks") != nil {
			return "it is still there"
		}
		return ""
	})
	w.hasEvent("hooks", "FailedPreStopHook: PreStopHook failed")
	w.eventually("its files are gone", func() string {
		if matches, _ := filepath.Glob(filepath.Join(w.dir, "pods", "*")); len(matches) > 0 {
			return strings.Join(matches, " ")
		}
		return ""
	})
}

// TestDeletedBeforeTheStartOfItsContainer deletes a pod whose container was created but not
// started: such a container neither runs nor is gone, and nothing starts or ends it.
func TestDeletedBeforeTheStartOfItsContainer(t *testing.T) {
	w := newWorld(t)
	w.start()
	pod := newPod("half")
	pod.Annotations["simulated.garboard.io/start-delay"] = "1h"
	w.create(pod)
	w.eventually("its container is created", func() string {
		if list := w.containers(); len(list) != 1 || list[0].State != runtime.Created {
			return fmt.Sprintf("%+v", list)
		}
		return ""
	})
	w.remove("half")
	w.eventually("nothing is left in the runtime", func() string {
		if list := w.containers(); len(list) > 0 {
			return fmt.Sprintf("%+v", list)
		}
		return ""
	})
}
