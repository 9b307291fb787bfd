package logrotate

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRotate writes a log for hours: the kept files are bounded, and the newest ones.
func TestRotate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		reopened := 0
		r := New(Config{
			MaxSize: 10, MaxFiles: 3, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
			Containers: func() []runtime.Container {
				return []runtime.Container{
					{ID: "a", State: runtime.Running, LogPath: path},
					{ID: "b", State: runtime.Exited, LogPath: path},
					{ID: "c", State: runtime.Running},
				}
			},
			Reopen: func(_ context.Context, id string) error {
				if id != "a" {
					t.Errorf("the log of %s was reopened", id)
				}
				reopened++
				return os.WriteFile(path, nil, 0o600)
			},
		})
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		for i := range 5 {
			write(t, path, strings.Repeat(string(rune('0'+i)), 11))
			time.Sleep(period + time.Second)
		}
		write(t, path, "short")
		time.Sleep(period)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if reopened != 5 {
			t.Errorf("reopened %d times, want 5", reopened)
		}
	})
	files, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, string(content[:1]))
	}
	if got := strings.Join(kept, " "); got != "s 3 4" {
		t.Errorf("the files %q begin with %s", files, got)
	}
}

// TestRotateFails: a log that the runtime does not reopen keeps its name.
func TestRotateFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	refused := errors.New("refused")
	r := New(Config{MaxSize: 1, Reopen: func(context.Context, string) error { return refused }})
	write(t, path, "text")
	if err := r.rotate(t.Context(), &runtime.Container{ID: "a", LogPath: path}); !errors.Is(err, refused) {
		t.Errorf("the error is %v", err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "text" {
		t.Errorf("the log is %q, %v", content, err)
	}
}

// TestRotateWasInterrupted: a missing log is created again.
func TestRotateWasInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	r := New(Config{Reopen: func(context.Context, string) error { return os.WriteFile(path, nil, 0o600) }})
	if err := r.rotate(t.Context(), &runtime.Container{ID: "a", LogPath: path}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
