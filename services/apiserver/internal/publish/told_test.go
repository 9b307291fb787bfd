package publish_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/feed"
	"github.com/garboard/garboard/services/apiserver/internal/publish"
	"github.com/garboard/garboard/services/apiserver/internal/store"
	"github.com/garboard/garboard/services/apiserver/internal/store/etcdtest"
)

// tellings counts the lines of a log that say that something is published again, by level.
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

// TestALastingFaultIsToldOnce checks that the log is not filled while NATS is away.
func TestALastingFaultIsToldOnce(t *testing.T) {
	server := bustest.NewServer(t)
	conn := server.Connect()
	pods := listen(t, conn, bus.ProgressSubject("", "pods"))
	quiet := slog.New(slog.DiscardHandler)
	s, err := store.Open(t.Context(), store.Config{Servers: etcdtest.New(t), Table: table, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	feeds := feed.New(feed.Config{Store: s, Table: table, Logger: quiet})
	log := &tellings{Handler: slog.DiscardHandler, levels: map[slog.Level]int{}}
	p := publish.New(publish.Config{Feeds: feeds, Bus: conn, Logger: slog.New(log), Parts: []publish.Part{{Truth: s, Kinds: []*scheme.Kind{podKind}}}})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{feeds.Run, p.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Errorf("running: %v", err)
			}
		})
	}
	defer func() {
		cancel()
		running.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	pods.next("progress", isProgress)
	server.Stop()
	tick, deadline := time.NewTicker(20*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for log.count(slog.LevelDebug) < 3 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("told at %v only", log.levels)
		}
	}
	// A slow machine may have come into the next minute.
	if told := log.count(slog.LevelInfo); told < 1 || told > 2 {
		t.Errorf("told %d times", told)
	}
}
