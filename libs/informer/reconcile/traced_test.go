package reconcile_test

import (
	"context"
	"testing"

	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/trace"
)

// continuing is a tracer that returns a trace for every object, by its name.
type continuing struct{ trace.Tracer }

func (continuing) Hop(trace.Hop) {}
func (continuing) Continue(ctx context.Context, object trace.Ref) context.Context {
	return trace.WithHeader(ctx, object.Resource+" "+object.Namespace+" "+object.Name)
}

// TestTraceGoesOn checks that a reconcile belongs to the trace of its object.
func TestTraceGoesOn(t *testing.T) {
	headers := make(chan string, 1)
	c := reconcile.New(reconcile.Config[string]{
		Name: "test", Resource: "pods", Trace: trace.NewRecorder(10).To(continuing{}),
		Reconcile: func(ctx context.Context, _ string) (reconcile.Result, error) {
			headers <- trace.HeaderOf(ctx)
			return reconcile.Result{}, nil
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	for key, want := range map[string]string{"n/p": "pods n p", "node": "pods  node"} {
		c.Enqueue(key)
		if got := <-headers; got != want {
			t.Errorf("the trace of %s is %q, want %q", key, got, want)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
