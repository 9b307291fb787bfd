package publish_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/publish"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// tellings counts the log lines that report that publishing starts again, by level.
type tellings struct {
	slog.Handler

	mu     sync.Mutex
	levels map[slog.Level]int
}

func (c *tellings) Enabled(context.Context, slog.Level) bool { return true }
func (c *tellings) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *tellings) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "publishing again" {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.levels[r.Level]++
	}
	return nil
}

func (c *tellings) count(level slog.Level) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.levels[level]
}

// TestALastingFaultIsLoggedOnce checks that the log is not flooded while NATS is away.
func TestALastingFaultIsLoggedOnce(t *testing.T) {
	t.Parallel()
	server := bustest.NewServer(t)
	conn := server.Connect()
	pods := listen(t, conn, subject.Progress("", "pods"))
	log := &tellings{Handler: slog.DiscardHandler, levels: map[slog.Level]int{}}
	startWith(t, etcdtest.Start(t), publish.Config{Table: table, Bus: conn, Logger: slog.New(log), Parts: []publish.Part{{Holds: only(podKind)}}})
	pods.next("progress", isProgress)
	server.Stop()
	tick, deadline := time.NewTicker(20*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for log.count(slog.LevelDebug) < 3 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("logged only %v", log.levels)
		}
	}
	// On a slow machine the test may reach the next minute.
	if told := log.count(slog.LevelInfo); told < 1 || told > 2 {
		t.Errorf("logged %d times", told)
	}
}
