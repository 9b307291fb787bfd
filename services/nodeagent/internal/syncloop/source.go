package syncloop

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/garboard/garboard/libs/informer"
)

// Op is the kind of change of a wanted pod.
type Op int

// The operations.
const (
	// Add: the pod is new to this agent.
	Add Op = iota
	// Update: the pod's wanted state changed.
	Update
	// Delete: the pod is to terminate gracefully; this is an update too.
	Delete
	// Remove: the pod is gone from the API.
	Remove
	// Reconcile: the pod's status in the API changed, but not its wanted state.
	Reconcile
)

// String returns the name of the operation for logs.
func (o Op) String() string {
	return [...]string{"ADD", "UPDATE", "DELETE", "REMOVE", "RECONCILE"}[o]
}

// Change is one change of a wanted pod.
type Change struct {
	Op  Op
	Pod *corev1.Pod
}

// Handler returns an event handler that sends changes from an informer of the node's pods. It stops
// sending when ctx ends.
func Handler(ctx context.Context, changes chan<- Change) informer.ResourceEventHandler[*corev1.Pod] {
	send := func(op Op, pod *corev1.Pod) {
		select {
		case changes <- Change{op, pod}:
		case <-ctx.Done():
		}
	}
	return informer.ResourceEventHandlerFuncs[*corev1.Pod]{
		AddFunc: func(pod *corev1.Pod, _ bool) { send(Add, pod) },
		UpdateFunc: func(old, pod *corev1.Pod) {
			if old.UID != pod.UID {
				// This is another pod of the same name; the deletion in between was not observed.
				send(Remove, old)
				send(Add, pod)
				return
			}
			if old.ResourceVersion == pod.ResourceVersion {
				return
			}
			send(operation(old, pod), pod)
		},
		DeleteFunc: func(deleted informer.DeletedObject[*corev1.Pod]) {
			if deleted.OptionalObj != nil {
				send(Remove, deleted.OptionalObj)
			}
		},
	}
}

func operation(old, pod *corev1.Pod) Op {
	switch {
	case pod.DeletionTimestamp != nil && !equality.Semantic.DeepEqual(old.DeletionGracePeriodSeconds, pod.DeletionGracePeriodSeconds),
		pod.DeletionTimestamp != nil && old.DeletionTimestamp == nil:
		return Delete
	case equality.Semantic.DeepEqual(old.Spec, pod.Spec) && equality.Semantic.DeepEqual(old.Labels, pod.Labels) &&
		equality.Semantic.DeepEqual(old.Annotations, pod.Annotations):
		return Reconcile
	}
	return Update
}
