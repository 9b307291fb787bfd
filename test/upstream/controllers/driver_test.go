package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Annotations of pods and nodes by which scripts direct the driver.
const (
	// outcome says what becomes of a pod: it stays (also without the annotation), completes, fails with the code of
	// exitCode, or waits and never becomes ready.
	outcome  = "judge/outcome"
	exitCode = "judge/exit-code"
	// failIndexes are the completion indexes, separated by commas, whose pods fail. The others complete.
	failIndexes = "judge/fail-indexes"
)

// nobody is the scheduler of pods that the driver leaves alone.
const nobody = "nobody"

// nodes are the nodes of each plane.
func nodes() []string { return []string{"node-a", "node-b", "node-c"} }

// driver plays the scheduler and the node agents of a plane: at most one step a pod and round, in the order of names.
type driver struct {
	client kubernetes.Interface
	next   int // where the next pod goes
}

// drive runs the driver of a plane until the test ends.
func (p *plane) drive(t *testing.T) {
	t.Helper()
	d := &driver{client: p.typed()}
	for _, name := range nodes() {
		if err := d.addNode(t.Context(), name); err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	// A round with many pods takes longer than nodes may be silent. An error is that of a fault: the apiserver restarts, or
	// another writer was first.
	again := func(pause time.Duration, do func(context.Context) error) {
		running.Go(func() {
			for ctx.Err() == nil {
				_ = do(ctx)
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	again(10*time.Second, d.renew)
	again(2*pause, d.round)
	t.Cleanup(func() { cancel(); running.Wait() })
}

func (d *driver) addNode(ctx context.Context, name string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	if _, err := d.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a node: %w", err)
	}
	now := metav1.Now()
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady} {
		status := corev1.ConditionFalse
		if kind == corev1.NodeReady {
			status = corev1.ConditionTrue
		}
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: status, Reason: "Driven", LastHeartbeatTime: now, LastTransitionTime: now,
		})
	}
	body, err := json.Marshal(map[string]any{"status": node.Status})
	if err != nil {
		return err
	}
	// Controllers write to the node at the same time.
	if _, err := d.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("writing a node's status: %w", err)
	}
	return nil
}

// renew keeps the nodes alive by their heartbeats.
func (d *driver) renew(ctx context.Context) error {
	found, err := d.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, node := range found.Items {
		name := node.Name
		if len(node.Status.Conditions) == 0 {
			continue // Its agent has never reported.
		}
		body := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":%q}]}}`, time.Now().UTC().Format(time.RFC3339))
		if _, err := d.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}, "status"); err != nil {
			return err
		}
	}
	return nil
}

// round takes each pod one step further.
func (d *driver) round(ctx context.Context) error {
	pods, err := d.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.schedulerName!=" + nobody})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if err := d.step(ctx, &pod); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

func (d *driver) step(ctx context.Context, pod *corev1.Pod) error {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case pod.DeletionTimestamp != nil && !ended:
		return d.write(ctx, pod, corev1.PodFailed, 137)
	case pod.DeletionTimestamp != nil:
		if *pod.DeletionGracePeriodSeconds == 0 {
			return nil // Finalizers hold it.
		}
		return d.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *metav1.NewDeleteOptions(0))
	case ended || len(pod.Spec.SchedulingGates) > 0:
		return nil
	case pod.Spec.NodeName == "":
		binding := &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: d.nodeOf(pod)},
		}
		return d.client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	case pod.Status.Phase == corev1.PodPending:
		if pod.Annotations[outcome] == "wait" {
			return nil
		}
		return d.write(ctx, pod, corev1.PodRunning, 0)
	}
	switch exit, ends := exitOf(pod); {
	case !ends:
		return nil
	case exit == 0:
		return d.write(ctx, pod, corev1.PodSucceeded, 0)
	default:
		return d.write(ctx, pod, corev1.PodFailed, exit)
	}
}

// exitOf returns with which code a pod ends, if it does.
func exitOf(pod *corev1.Pod) (code int32, ends bool) {
	if list, set := pod.Annotations[failIndexes]; set {
		if slices.Contains(strings.Split(list, ","), pod.Labels["batch.kubernetes.io/job-completion-index"]) {
			return 1, true
		}
		return 0, true
	}
	switch pod.Annotations[outcome] {
	case "complete":
		return 0, true
	case "fail":
		code, err := strconv.ParseInt(pod.Annotations[exitCode], 10, 32)
		if err != nil {
			return 1, true
		}
		return int32(code), true
	}
	return 0, false
}

// nodeOf returns where a pod goes: where its affinity says, as the DaemonSets' pods have it, else the next node.
func (d *driver) nodeOf(pod *corev1.Pod) string {
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		if required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			for _, term := range required.NodeSelectorTerms {
				if len(term.MatchFields) == 1 {
					return term.MatchFields[0].Values[0]
				}
			}
		}
	}
	d.next++
	return nodes()[d.next%len(nodes())]
}

// write writes the status of a pod that has reached a phase. Containers that ended have the exit code.
func (d *driver) write(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase, exit int32) error {
	now := metav1.Now()
	ready := corev1.ConditionTrue
	reason := ""
	if phase != corev1.PodRunning {
		ready, reason = corev1.ConditionFalse, "PodCompleted"
	}
	status := pod.Status.DeepCopy()
	status.Phase, status.StartTime, status.PodIP, status.HostIP = phase, &now, "10.64.0.9", "192.0.2.9"
	status.PodIPs, status.HostIPs = []corev1.PodIP{{IP: status.PodIP}}, []corev1.HostIP{{IP: status.HostIP}}
	for kind, value := range map[corev1.PodConditionType]corev1.ConditionStatus{
		corev1.PodInitialized: corev1.ConditionTrue, corev1.ContainersReady: ready, corev1.PodReady: ready,
	} {
		status.Conditions = slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
		condition := corev1.PodCondition{Type: kind, Status: value, LastTransitionTime: now}
		if value == corev1.ConditionFalse {
			condition.Reason = reason
		}
		status.Conditions = append(status.Conditions, condition)
	}
	status.ContainerStatuses = nil
	for _, container := range pod.Spec.Containers {
		state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
		if phase != corev1.PodRunning {
			state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exit, StartedAt: now, FinishedAt: now}}
		}
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, ImageID: container.Image, State: state, Ready: phase == corev1.PodRunning, Started: new(phase == corev1.PodRunning),
		})
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return err
	}
	_, err = d.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	return err
}
