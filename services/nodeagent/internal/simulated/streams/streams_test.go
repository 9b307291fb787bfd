package streams

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
)

// idle is a runtime without sessions.
type idle struct{ streaming.Runtime }

// TestPortOpensLate checks that the port opens with the first session, and not without Run.
func TestPortOpensLate(t *testing.T) {
	s := New()
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Sessions(late); status.Code(err) != codes.Canceled {
		t.Errorf("without Run: %v", err)
	}
	for _, wanted := range []bool{false, true} {
		s, done := New(), make(chan error, 1)
		ctx, end := context.WithCancel(t.Context())
		go func() { done <- s.Run(ctx, idle{}) }()
		if wanted {
			sessions, err := s.Sessions(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := sessions.GetPortForward(&cri.PortForwardRequest{PodSandboxId: "x"}); err != nil {
				t.Error(err)
			}
		}
		select {
		case <-s.ready:
			if !wanted {
				t.Error("the port is open before the first session")
			}
		default:
			if wanted {
				t.Error("the port is not open")
			}
		}
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestRunWaits checks that Run returns after what Go started, and that nothing starts afterwards.
func TestRunWaits(t *testing.T) {
	s, done := New(), make(chan error, 1)
	ctx, end := context.WithCancel(t.Context())
	go func() { done <- s.Run(ctx, idle{}) }()
	if _, err := s.Sessions(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := false
	started := s.Go(func() {
		<-ctx.Done()
		ended = true
	})
	end()
	if err := <-done; err != nil || !started || !ended {
		t.Errorf("Run returned %v; started %t, ended %t", err, started, ended)
	}
	if s.Go(func() { t.Error("it runs after the end") }) {
		t.Error("something started after the end")
	}
}
