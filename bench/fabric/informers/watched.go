package main

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/bench/fabric/messages"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// watched is an informer of all pods, with a handler that records its calls.
type watched struct {
	informer informer.SharedInformer[*corev1.Pod]
	close    func()

	mu    sync.Mutex
	calls int
	late  []int64
}

func watch(table *scheme.Table, source informer.Source, logger *slog.Logger, closeConn func()) (*watched, error) {
	w := &watched{
		informer: informer.NewSharedInformer[*corev1.Pod](informer.Config{Source: source, Table: table, Logger: logger}, informer.View{}),
		close:    closeConn,
	}
	// The servers are being measured, and hundreds of complete caches would not fit in memory next
	// to them.
	if err := w.informer.SetTransform(strip); err != nil {
		return nil, err
	}
	_, err := w.informer.AddEventHandler(w)
	return w, err
}

// strip reduces a pod to its identity and the time at which it was written.
func strip(pod *corev1.Pod) (*corev1.Pod, error) {
	kept := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}}
	if written, ok := pod.Annotations[messages.Written]; ok {
		kept.Annotations = map[string]string{messages.Written: written}
	}
	return kept, nil
}

func (w *watched) run(ctx context.Context) error {
	defer w.close()
	return w.informer.Run(ctx)
}

// revision returns the revision of which the store is the exact content, or 0 before the first.
func (w *watched) revision() int64 { return w.informer.Revision() }

// take returns the calls recorded since the last call of take.
func (w *watched) take() (calls int, late []int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls, late = w.calls, w.late
	w.calls, w.late = 0, nil
	return calls, late
}

func (w *watched) note(pod *corev1.Pod) {
	now := time.Now().UnixNano()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	if written, err := strconv.ParseInt(pod.Annotations[messages.Written], 10, 64); err == nil {
		w.late = append(w.late, now-written)
	}
}

// OnAdd records an add.
func (w *watched) OnAdd(pod *corev1.Pod, inInitialList bool) {
	if !inInitialList {
		w.note(pod)
	}
}

// OnUpdate records an update.
func (w *watched) OnUpdate(_, pod *corev1.Pod) { w.note(pod) }

// OnDelete does nothing: no pod is deleted.
func (w *watched) OnDelete(informer.DeletedObject[*corev1.Pod]) {}
