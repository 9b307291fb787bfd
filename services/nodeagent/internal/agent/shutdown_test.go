package agent_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/nodeagent/internal/agent"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// TestShutdown shuts the node down with its pods: critical pods end last, and the API has the final
// status of each. The node reports the shutdown and rejects new pods.
func TestShutdown(t *testing.T) {
	w := newWorld(t)
	a, stop := w.startWith(func(cfg *agent.Config) {
		cfg.ShutdownGrace, cfg.ShutdownGraceCritical = 2*time.Minute, time.Minute
	})
	system := int32(2_000_000_000)
	needed := newPod("needed")
	needed.Spec.Priority = &system
	// The slow pod uses its whole grace period, so that there is time to observe the node.
	slow := newPod("slow")
	slow.Annotations["simulated.garboard.io/stop-delay"] = "3s"
	w.create(needed)
	w.create(slow)
	w.create(newPod("web"))
	done := newPod("done")
	done.Spec.RestartPolicy = corev1.RestartPolicyNever
	done.Annotations["simulated.garboard.io/exit-after"] = "0s"
	w.create(done)
	for _, name := range []string{"needed", "slow", "web"} {
		w.until(name, "ready", ready)
	}
	w.until("done", "Succeeded", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.Shutdown(context.WithoutCancel(t.Context()))
	}()
	w.eventually("the node is not ready", func() string {
		node, err := client.Of[*corev1.Node](w.api).Get(t.Context(), "", nodeName, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionFalse && c.Reason == "KubeletNotReady" && c.Message == "node is shutting down" {
				return ""
			}
		}
		return fmt.Sprintf("%+v", node.Status.Conditions)
	})
	w.hasEvent(nodeName, "NodeShutdown: Shutdown manager detected shutdown event")
	w.create(newPod("late"))
	late := w.until("late", "Failed", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if late.Status.Reason != "NodeShutdown" || late.Status.Message != "Pod was rejected: Pod was rejected as the node is shutting down." {
		t.Errorf("a late pod: %s, %q", late.Status.Reason, late.Status.Message)
	}
	select {
	case <-ended:
	case <-time.After(2 * time.Minute):
		t.Fatal("the shutdown does not end")
	}
	// Every status was reported before the agent ends.
	finished := map[string]time.Time{}
	for _, name := range []string{"needed", "slow", "web"} {
		pod := w.get(name)
		if pod == nil {
			t.Fatalf("%s is gone", name)
		}
		if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != "Terminated" || pod.Status.Message != "Pod was terminated in response to imminent node shutdown." {
			t.Errorf("%s: %s, %s, %q", name, pod.Status.Phase, pod.Status.Reason, pod.Status.Message)
		}
		disrupted := false
		for _, c := range pod.Status.Conditions {
			disrupted = disrupted || c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonTerminationByKubelet
		}
		if term := pod.Status.ContainerStatuses[0].State.Terminated; term == nil || !disrupted {
			t.Errorf("%s: %+v, %+v", name, pod.Status.ContainerStatuses, pod.Status.Conditions)
		} else {
			finished[name] = term.FinishedAt.Time
		}
	}
	if finished["needed"].Before(finished["slow"]) || finished["needed"].Before(finished["web"]) {
		t.Errorf("the critical pod ended before the others: %v", finished)
	}
	if pod := w.get("done"); pod.Status.Phase != corev1.PodSucceeded || pod.Status.Reason != "" {
		t.Errorf("a pod that had ended: %+v", pod.Status)
	}
	for _, c := range w.containers() {
		if c.State == runtime.Running {
			t.Errorf("the container %s of %s still runs", c.Name, c.PodName)
		}
	}
	stop()
}
