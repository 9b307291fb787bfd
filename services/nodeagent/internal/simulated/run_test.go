package simulated

import (
	"context"
	"testing"
	"time"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// TestRunEndsAfterItsCalls: calls in flight have written their state when Run returns, so that the
// next runtime can use the directory.
func TestRunEndsAfterItsCalls(t *testing.T) {
	cfg := config(t.TempDir())
	began, ended := make(chan struct{}), make(chan struct{})
	cfg.Fail = func(call string) error {
		if call == "PullImage" {
			close(began)
			<-time.After(200 * time.Millisecond)
			close(ended)
		}
		return nil
	}
	r := create(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	client, err := runtime.Connect(t.Context(), r.Endpoint(), nil)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_, _ = client.PullImage(ctx, "nginx", runtime.Auth{}, runtime.SandboxConfig{}) // it is cut off
	}()
	<-began
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
	default:
		t.Error("a call continues after the end")
	}
	<-asked
	if err := client.Close(); err != nil {
		t.Error(err)
	}
}
