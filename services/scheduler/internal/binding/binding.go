// Package binding writes what placement decided: a pod's binding to a node, or the condition and
// the Event that say why it has none.
package binding

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace"
)

// Recorder records Events; package events has the real one.
type Recorder interface {
	Event(obj scheme.Object, eventType, reason, format string, args ...any)
}

// Reasons of the condition PodScheduled while a pod has no node.
const (
	Unschedulable  = corev1.PodReasonUnschedulable
	SchedulerError = corev1.PodReasonSchedulerError
)

// Binder writes for one scheduler. It is safe for concurrent use.
type Binder struct {
	pods   client.Resource[*corev1.Pod]
	events Recorder
	trace  *trace.Recorder
}

// New returns a binder; trace may be nil.
func New(c client.Interface, events Recorder, trace *trace.Recorder) *Binder {
	return &Binder{pods: client.Of[*corev1.Pod](c), events: events, trace: trace}
}

// Bind binds a pod to a node. The apiserver refuses the binding if the pod is bound already, so two
// schedulers do no harm. since is when the attempt began, for the trace.
func (b *Binder) Bind(ctx context.Context, pod *corev1.Pod, node string, since time.Time) error {
	ctx = b.trace.Continue(ctx, trace.Ref{Resource: "pods", Namespace: pod.Namespace, Name: pod.Name})
	body := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	if err := b.pods.CreateSubresource(ctx, pod.Namespace, pod.Name, "binding", body, nil, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("binding %s/%s to %s: %w", pod.Namespace, pod.Name, node, err)
	}
	b.trace.Record(trace.Hop{
		Took: time.Since(since), Service: "scheduler", Step: trace.Bind, Resource: "pods",
		Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Detail: node,
	})
	b.events.Event(pod, corev1.EventTypeNormal, "Scheduled", "Successfully assigned %s/%s to %s", pod.Namespace, pod.Name, node)
	return nil
}

// Fail records an Event that a pod could not be scheduled. It also writes the condition
// PodScheduled with the reason, unless the pod already has it.
func (b *Binder) Fail(ctx context.Context, pod *corev1.Pod, reason, message string) error {
	b.events.Event(pod, corev1.EventTypeWarning, "FailedScheduling", "%s", message)
	condition := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message,
		ObservedGeneration: pod.Generation, LastTransitionTime: metav1.Now(),
	}
	for i := range pod.Status.Conditions {
		old := &pod.Status.Conditions[i]
		if old.Type != corev1.PodScheduled {
			continue
		}
		if old.Status == condition.Status {
			condition.LastTransitionTime = old.LastTransitionTime
			if old.Reason == reason && old.Message == message && old.ObservedGeneration == condition.ObservedGeneration {
				return nil
			}
		}
	}
	// The UID makes the write fail when another pod has taken the name.
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"conditions": []corev1.PodCondition{condition}},
	})
	if err != nil {
		return fmt.Errorf("encoding the condition of %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if _, err := b.pods.Patch(ctx, pod.Namespace, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("writing the condition of %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
