//go:build containers

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/test/e2e/plane"
)

// restarts kills the plane, and then containerd, under the pods that the cases left running.
func restarts(t *testing.T, w *podWorld) {
	t.Run("the plane is killed", func(t *testing.T) { planeKilled(t, w) })
	t.Run("containerd is killed", func(t *testing.T) { containerdKilled(t, w) })
}

// planeKilled: containers keep running without the plane. The next node agent takes them over, and
// reports the ones that ended in the meantime.
func planeKilled(t *testing.T, w *podWorld) {
	w.Must(t, "", "run", "expiring", "--image=busybox:1.36", "--restart=Never", "--", "sh", "-c", "sleep 5; exit 4")
	w.until(t, "expiring", "started", func(pod *corev1.Pod) bool { return pod.Status.Phase != corev1.PodPending })
	steady := []string{"server", "changeable", "mortal", "phoenix", "talker", "nosecret"}
	before := map[string]*corev1.Pod{}
	for _, name := range steady {
		before[name] = w.ready(t, name)
	}
	crashes := container(w.pod(t, "crash"), "main").RestartCount
	uid := string(w.pod(t, "expiring").UID)
	w.Kill()
	plane.Eventually(t, "the container to end by itself", func(ctx context.Context) error {
		count, err := w.containers.Running(ctx)
		if err == nil && count[uid] != 0 {
			return errors.New("it is still running")
		}
		return err
	})
	count, err := w.containers.Running(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, pod := range before {
		if count[string(pod.UID)] != len(pod.Spec.Containers) {
			t.Errorf("without the plane, %d containers of %s are running", count[string(pod.UID)], name)
		}
	}
	w.Restart(t)

	expiring := w.phase(t, "expiring", corev1.PodFailed)
	if end := ended(expiring, "expiring"); end.ExitCode != 4 {
		t.Errorf("expiring terminated with %+v", end)
	}
	for _, name := range steady {
		same(t, before[name], w.ready(t, name))
	}
	w.lastWords(t)
	if now := container(w.pod(t, "crash"), "main").RestartCount; now < crashes {
		t.Errorf("the restarts of crash went from %d to %d", crashes, now)
	}
	w.row(t, "environment", "0/1 +Completed +0")
	w.log(t, `^first\n$`, "phoenix", "--previous")
	w.Must(t, "", "run", "next", "--image=nginx:1.14.2")
	w.ready(t, "next")
}

// same fails the test unless the pod still has the same containers.
func same(t *testing.T, before, after *corev1.Pod) {
	t.Helper()
	if before.UID != after.UID || before.Status.PodIP != after.Status.PodIP {
		t.Errorf("pod %s %s at %s is %s at %s", before.Name, before.UID, before.Status.PodIP, after.UID, after.Status.PodIP)
	}
	for _, c := range before.Status.ContainerStatuses {
		if now := container(after, c.Name); now.ContainerID != c.ContainerID || now.RestartCount != c.RestartCount {
			t.Errorf("container %s of %s was %s and is %s; its restarts were %d and are %d",
				c.Name, before.Name, c.ContainerID, now.ContainerID, c.RestartCount, now.RestartCount)
		}
	}
}

// containerdKilled: requests that arrive while the runtime is down are carried out when it is back.
func containerdKilled(t *testing.T, w *podWorld) {
	kept := []*corev1.Pod{w.ready(t, "server"), w.ready(t, "mortal"), w.ready(t, "changeable")}
	uid := string(w.ready(t, "talker").UID)
	w.containers.Kill(t)
	w.Must(t, "", "delete", "pod", "talker", "--wait=false")
	w.Must(t, "", "run", "meanwhile", "--image=nginx:1.14.2")
	plane.Eventually(t, "the node to be reported as not ready", func(context.Context) error {
		if out := w.Must(t, "", "get", "nodes", "--no-headers"); !strings.Contains(out, "NotReady") {
			return fmt.Errorf("kubectl printed %q", out)
		}
		return nil
	})
	if pod := w.pod(t, "talker"); pod == nil || pod.DeletionTimestamp == nil {
		t.Errorf("the pod that is deleted while its container runs is %+v", pod)
	}
	w.containers.Restart(t)
	plane.Eventually(t, "the deleted pod to go", func(ctx context.Context) error {
		if pod := w.pod(t, "talker"); pod != nil {
			return fmt.Errorf("its status is %+v", pod.Status)
		}
		count, err := w.containers.Running(ctx)
		if err == nil && count[uid] != 0 {
			return errors.New("its container is still running")
		}
		return err
	})
	w.ready(t, "meanwhile")
	for _, pod := range kept {
		same(t, pod, w.ready(t, pod.Name))
	}
	plane.Eventually(t, "the node to be ready", func(context.Context) error {
		if out := w.Must(t, "", "get", "nodes", "--no-headers"); strings.Contains(out, "NotReady") {
			return fmt.Errorf("kubectl printed %q", out)
		}
		return nil
	})
}
