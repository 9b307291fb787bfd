package daemon_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/daemon"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// journal records what parts do, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) write(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) part(name string) daemon.Part {
	return daemon.Part{
		Name: name,
		Run: func(ctx context.Context) error {
			<-ctx.Done()
			j.write("stop " + name)
			return ctx.Err()
		},
		Ready: func(context.Context) error {
			j.write("ready " + name)
			return nil
		},
	}
}

func TestRunPartsStartsInOrderAndStopsInReverse(t *testing.T) {
	var j journal
	ctx, cancel := context.WithCancel(t.Context())
	err := daemon.RunParts(ctx, slog.New(slog.DiscardHandler), []daemon.Part{j.part("etcd"), j.part("nats"), j.part("apiserver")}, cancel)
	if err != nil {
		t.Fatalf("RunParts: %v", err)
	}
	want := []string{"ready etcd", "ready nats", "ready apiserver", "stop apiserver", "stop nats", "stop etcd"}
	if !slices.Equal(j.lines, want) {
		t.Errorf("got %q, want %q", j.lines, want)
	}
}

func TestRunPartsReportsThePartThatFailed(t *testing.T) {
	broken := errors.New("port taken")
	cases := []struct {
		name string
		part daemon.Part
		want string
	}{
		{
			"while it runs",
			daemon.Part{Name: "apiserver", Run: func(context.Context) error { return broken }},
			"apiserver: port taken",
		},
		{
			"before it is ready",
			daemon.Part{
				Name: "apiserver",
				Run:  func(context.Context) error { return broken },
				Ready: func(ctx context.Context) error {
					<-ctx.Done()
					return ctx.Err()
				},
			},
			"apiserver: port taken",
		},
		{
			"without an error",
			daemon.Part{Name: "apiserver", Run: func(context.Context) error { return nil }},
			"apiserver ended unexpectedly",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var j journal
			err := daemon.RunParts(t.Context(), slog.New(slog.DiscardHandler), []daemon.Part{j.part("etcd"), c.part}, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if strings.Count(err.Error(), "port taken") > 1 {
				t.Errorf("the cause appears twice: %v", err)
			}
			if !slices.Contains(j.lines, "stop etcd") {
				t.Errorf("the part before it was not stopped: %q", j.lines)
			}
		})
	}
}

func TestRunPartsStoppedWhileStarting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var j journal
	slow := daemon.Part{
		Name: "etcd",
		Run:  j.part("etcd").Run,
		Ready: func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		},
	}
	if err := daemon.RunParts(ctx, slog.New(slog.DiscardHandler), []daemon.Part{slow, j.part("nats")}, nil); err != nil {
		t.Errorf("an interrupted start returned an error: %v", err)
	}
	if !slices.Equal(j.lines, []string{"stop etcd"}) {
		t.Errorf("got %q", j.lines)
	}
}
