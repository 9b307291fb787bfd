package serviceendpoints

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// Triggers finds out when the change happened that the endpoints of a Service have yet to show: the value
// of the annotation endpoints.kubernetes.io/last-change-trigger-time. It keeps a time for each pod of a
// Service. The zero value knows no Service.
type Triggers struct {
	mu    sync.Mutex
	known map[string]trigger
}

type trigger struct {
	service time.Time
	pods    map[string]time.Time
}

// Reset forgets all Services.
func (t *Triggers) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known = nil
}

// Forget forgets a Service.
func (t *Triggers) Forget(key controller.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, key.String())
}

// Note records the state of a Service and its pods, and returns the earliest of the changes since the
// state before: when a pod became ready or unready, or the Service was created. It returns the creation
// of a Service that it does not know, and the zero time if nothing has changed.
func (t *Triggers) Note(svc *corev1.Service, pods []*corev1.Pod) time.Time {
	key := svc.Namespace + "/" + svc.Name
	t.mu.Lock()
	defer t.mu.Unlock()
	last, known := t.known[key]
	next := trigger{service: svc.CreationTimestamp.Time, pods: make(map[string]time.Time, len(pods))}
	var earliest time.Time
	changed := func(at, before time.Time) {
		if at.After(before) && (earliest.IsZero() || at.Before(earliest)) {
			earliest = at
		}
	}
	for _, pod := range pods {
		ready := podstate.Condition(pod, corev1.PodReady)
		if ready == nil || ready.LastTransitionTime.IsZero() {
			continue
		}
		next.pods[pod.Name] = ready.LastTransitionTime.Time
		changed(ready.LastTransitionTime.Time, last.pods[pod.Name])
	}
	changed(next.service, last.service)
	if t.known == nil {
		t.known = map[string]trigger{}
	}
	t.known[key] = next
	if !known {
		return next.service
	}
	return earliest
}

// Annotate sets or clears the annotation of the last change in a map, which may be nil, and returns it.
func Annotate(annotations map[string]string, at time.Time) map[string]string {
	if at.IsZero() {
		delete(annotations, corev1.EndpointsLastChangeTriggerTime)
		return annotations
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[corev1.EndpointsLastChangeTriggerTime] = at.UTC().Format(time.RFC3339Nano)
	return annotations
}
