package agent_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/nodeagent/internal/agent"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

func computing(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// change changes a pod in the API.
func (w *world) change(name string, change func(*corev1.Pod)) *corev1.Pod {
	w.t.Helper()
	pod := w.get(name)
	for {
		change(pod)
		changed, err := w.pods().Update(w.t.Context(), pod, metav1.UpdateOptions{})
		if err == nil {
			return changed
		}
		if pod = w.get(name); pod == nil || !strings.Contains(err.Error(), "modified") {
			w.t.Fatalf("changing %s: %v", name, err)
		}
	}
}

func restartsOf(pod *corev1.Pod) int32 {
	if len(pod.Status.ContainerStatuses) == 0 {
		return 0
	}
	return pod.Status.ContainerStatuses[0].RestartCount
}

// told returns how often an Event with a reason was recorded about a pod.
func (w *world) told(name, reason string) (n int32) {
	list, _, err := client.Of[*corev1.Event](w.api).List(w.t.Context(), "default", metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range list {
		if e.InvolvedObject.Name == name && e.Reason == reason {
			n += max(e.Count, 1)
		}
	}
	return n
}

// TestChangedPodsStayInCare: whatever changes in a running pod, its containers are probed and
// restarted, and the pod terminates when it is deleted.
func TestChangedPodsStayInCare(t *testing.T) {
	hour := int64(3600)
	changes := map[string]func(*corev1.Pod){
		"image":      func(p *corev1.Pod) { p.Spec.Containers[0].Image = "nginx:1.15" },
		"init-image": func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "busybox:1.37" },
		"deadline":   func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = &hour },
		"grace":      func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(1)) },
		"tolerations": func(p *corev1.Pod) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "x", Operator: corev1.TolerationOpExists})
		},
		"labels":      func(p *corev1.Pod) { p.Labels = map[string]string{"new": "label"} },
		"annotations": func(p *corev1.Pod) { p.Annotations["new"] = "annotation" },
		"ephemeral": func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debugger", Image: "busybox"}}}
		},
		"resize":      func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = computing("200m", "32Mi") },
		"init-resize": func(p *corev1.Pod) { p.Spec.InitContainers[0].Resources.Requests = computing("200m", "32Mi") },
		"pod-resize": func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: computing("400m", "64Mi")}
		},
	}
	w := newWorld(t)
	w.startWith(func(cfg *agent.Config) { cfg.MaxPods = len(changes) })
	for name := range changes {
		pod := newPod(name)
		pod.Annotations["simulated.garboard.io/exec-code"] = "1"
		pod.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "busybox", Resources: corev1.ResourceRequirements{Requests: computing("100m", "16Mi")}}}
		c := &pod.Spec.Containers[0]
		c.Resources.Requests = computing("100m", "16Mi")
		c.LivenessProbe = &corev1.Probe{
			ProbeHandler:        corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"check"}}},
			InitialDelaySeconds: 2, PeriodSeconds: 1, FailureThreshold: 1, TerminationGracePeriodSeconds: new(int64(1)),
		}
		w.create(pod)
	}
	before := map[string]int32{}
	for name, change := range changes {
		w.until(name, "running", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
		generation := w.change(name, change).Generation
		seen := w.until(name, "seen as changed", func(p *corev1.Pod) bool { return p.Status.ObservedGeneration == generation })
		before[name] = restartsOf(seen)
	}
	for name := range changes {
		w.until(name, "probed and restarted", func(p *corev1.Pod) bool { return restartsOf(p) > before[name] })
	}
	w.until("ephemeral", "shown with its debugger running", func(p *corev1.Pod) bool {
		statuses := p.Status.EphemeralContainerStatuses
		return len(statuses) == 1 && statuses[0].Name == "debugger" && statuses[0].State.Running != nil
	})
	for _, name := range []string{"resize", "init-resize", "pod-resize"} {
		w.hasEvent(name, "ResizeInfeasible: Pod resize Infeasible: {")
	}
	for name := range changes {
		if err := w.pods().Delete(t.Context(), "default", name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name := range changes {
		w.eventually(name+" is gone", func() string {
			if pod := w.get(name); pod != nil {
				return fmt.Sprintf("%+v", pod.Status)
			}
			return ""
		})
	}
}

// TestResizeIsNotShownAsDone: a node that does not resize says so and shows the actual resources:
// after a restart of the agent, after one of the container, until the resize is reverted.
func TestResizeIsNotShownAsDone(t *testing.T) {
	w := newWorld(t)
	stop := w.start()
	testResize(t, w, func() { stop(); w.start() })
}

func testResize(t *testing.T, w *world, restartAgent func()) {
	had := corev1.ResourceRequirements{Requests: computing("100m", "16Mi"), Limits: computing("500m", "64Mi")}
	pod := newPod("sized")
	pod.Spec.Containers[0].Resources = had
	w.create(pod)
	pending := func(p *corev1.Pod) *corev1.PodCondition {
		for i := range p.Status.Conditions {
			if p.Status.Conditions[i].Type == corev1.PodResizePending {
				return &p.Status.Conditions[i]
			}
		}
		return nil
	}
	check := func(when string, p *corev1.Pod) {
		t.Helper()
		cs := p.Status.ContainerStatuses[0]
		if cs.Resources == nil || !equality.Semantic.DeepEqual(*cs.Resources, had) || !equality.Semantic.DeepEqual(cs.AllocatedResources, had.Requests) {
			t.Errorf("%s: resources %+v, allocated %v; want %+v", when, cs.Resources, cs.AllocatedResources, had)
		}
	}
	check("at first", w.until("sized", "ready", ready))
	resized := w.change("sized", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: computing("200m", "32Mi"), Limits: computing("1", "128Mi")}
	})
	waits := func(p *corev1.Pod) bool {
		c := pending(p)
		return c != nil && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonInfeasible && c.ObservedGeneration == resized.Generation && ready(p)
	}
	check("after the resize", w.until("sized", "waiting for its resize", waits))
	w.hasEvent("sized", `ResizeInfeasible: Pod resize Infeasible: {"containers":[{"name":"nginx","resources":{"limits":{"cpu":"1"`)
	restartAgent()
	_, stopped, _ := strings.Cut(w.get("sized").Status.ContainerStatuses[0].ContainerID, "://")
	if err := w.runtime.StopContainer(t.Context(), stopped, 0); err != nil {
		t.Fatal(err)
	}
	check("after restarts of agent and container", w.until("sized", "restarted", func(p *corev1.Pod) bool { return restartsOf(p) == 1 && waits(p) }))
	for _, c := range w.containers() {
		if c.PodName != "sized" {
			continue
		}
		if c.ID != stopped && !strings.Contains(c.Annotations["garboard.io/container-resources"], `"cpu":"100m"`) {
			t.Errorf("the container was created with %s", c.Annotations["garboard.io/container-resources"])
		}
		if want := (runtime.Resources{CPUShares: 102, CPUPeriod: 100000, CPUQuota: 50000, MemoryLimit: 64 << 20}); c.Resources != nil && !equality.Semantic.DeepEqual(*c.Resources, want) {
			t.Errorf("the container has %+v, want %+v", *c.Resources, want)
		}
	}
	if n := w.told("sized", "ResizeInfeasible"); n != 1 {
		t.Errorf("got %d Events that the pod is not resized, want 1", n)
	}
	w.change("sized", func(p *corev1.Pod) { p.Spec.Containers[0].Resources = had })
	check("after the resize was reverted", w.until("sized", "not waiting for a resize", func(p *corev1.Pod) bool { return pending(p) == nil && ready(p) }))
	w.remove("sized")
}
