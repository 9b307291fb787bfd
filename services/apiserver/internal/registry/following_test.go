package registry_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// following is a running watch that sends its events to a channel.
type following struct {
	results chan watch.Event
	cancel  context.CancelFunc
	ended   chan struct{}
}

// run runs an open watch until Stop.
func run(t *testing.T, w *registry.Watch) *following {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &following{results: make(chan watch.Event, 16), cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		defer close(f.results)
		if err := w.Run(ctx, nil, sink{ctx, f.results}); err != nil && ctx.Err() == nil {
			t.Errorf("the watch ended with %v", err)
		}
	}()
	return f
}

func (f *following) ResultChan() <-chan watch.Event { return f.results }

func (f *following) Stop() {
	f.cancel()
	<-f.ended
}

type sink struct {
	ctx     context.Context
	results chan<- watch.Event
}

func (s sink) Send(event registry.Event) error {
	obj, err := event.Object()
	if err != nil {
		return err
	}
	select {
	case s.results <- watch.Event{Type: event.Type, Object: obj}:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

func (s sink) Flush() error { return nil }

func follow(t *testing.T, r *registry.Resource, namespace string, opts metav1.ListOptions) *following {
	t.Helper()
	w, err := r.Watch(t.Context(), namespace, opts)
	if err != nil {
		t.Fatalf("watching: %v", err)
	}
	f := run(t, w)
	t.Cleanup(f.Stop)
	return f
}
