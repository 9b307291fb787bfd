package publish_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/subject"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/publish"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// TestWitness checks that a starting apiserver compares etcd with the log of every resource before
// it publishes and answers, whether or not it is elected.
func TestWitness(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		logged func(history *watchv1.History, at int64) *watchv1.Message
		renews bool
		// quiet makes progress the last message of the log.
		quiet bool
	}{
		"the log is empty": {nil, false, false},
		"the log is true": {func(history *watchv1.History, at int64) *watchv1.Message {
			return &watchv1.Message{History: history, Revision: at, Name: "true", Type: watchv1.Type_TYPE_PUT, Omitted: true}
		}, false, false},
		"etcd contradicts the log": {func(history *watchv1.History, at int64) *watchv1.Message {
			return &watchv1.Message{History: history, Revision: at, Name: "ghost", Type: watchv1.Type_TYPE_PUT, Omitted: true}
		}, true, false},
		"etcd is behind the log": {func(history *watchv1.History, at int64) *watchv1.Message {
			return &watchv1.Message{History: history, Revision: at + 1000, Name: "true", Type: watchv1.Type_TYPE_DELETED}
		}, true, false},
		"the log has another history": {func(_ *watchv1.History, at int64) *watchv1.Message {
			return &watchv1.Message{History: &watchv1.History{Created: 1, Nonce: 2}, Revision: at + 1000, Name: "ghost", Type: watchv1.Type_TYPE_PUT}
		}, false, false},
		"etcd contradicts the log before a quiet time": {func(history *watchv1.History, at int64) *watchv1.Message {
			return &watchv1.Message{History: history, Revision: at, Name: "ghost", Type: watchv1.Type_TYPE_PUT, Omitted: true}
		}, true, true},
		"the log is true before a quiet time": {func(history *watchv1.History, at int64) *watchv1.Message {
			return &watchv1.Message{History: history, Revision: at, Name: "true", Type: watchv1.Type_TYPE_PUT, Omitted: true}
		}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			conn := bustest.New(t)
			p, s := witnessing(t, nil, conn)
			made, err := s.Create(t.Context(), podKind, &corev1.Pod{ObjectMeta: meta("default", "true")})
			if err != nil {
				t.Fatal(err)
			}
			before, err := s.History(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if c.logged != nil {
				history := &watchv1.History{Created: before.Created, Nonce: before.Nonce}
				write(t, conn, c.logged(history, revision(t, made)))
				if c.quiet {
					write(t, conn, &watchv1.Message{History: history, Revision: revision(t, made), Type: watchv1.Type_TYPE_PROGRESS})
				}
			}
			if err := p.Witness(t.Context()); err != nil {
				t.Fatal(err)
			}
			after, err := s.History(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if renewed := after != before; renewed != c.renews {
				t.Errorf("the history was %v and is %v", before, after)
			}
		})
	}
}

// witnessing returns a publisher that does not run, on an etcd and a log of its own, with the store.
// through, if not nil, comes between the publisher and its log.
func witnessing(t *testing.T, through func(open func(context.Context) (publish.Log, error)) func(context.Context) (publish.Log, error),
	conn *bus.Conn) (*publish.Publisher, *store.Store) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	s, err := store.Open(t.Context(), store.Config{Servers: etcdtest.New(t), Table: table, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	feeds := feed.New(feed.Config{Store: s, Table: table, Logger: quiet})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- feeds.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	open := logOn(t.Context(), conn)
	if through != nil {
		open = through(open)
	}
	return publish.New(publish.Config{
		Table: table, Parts: []publish.Part{{Storage: s, OpenLog: open}}, Feeds: feeds, Bus: conn, Logger: quiet,
	}), s
}

// slow is a log of which the first opening and the first read do not finish in time.
type slow struct {
	publish.Log
	reads *atomic.Int64
}

func (l slow) Last(ctx context.Context, subject string) (bus.Message, error) {
	if l.reads.Add(1) == 1 {
		return bus.Message{}, fmt.Errorf("reading the last message: %w", context.DeadlineExceeded)
	}
	return l.Log.Last(ctx, subject)
}

// TestWitnessWaitsForASlowLog checks that a log that does not answer in time is asked again: what is
// published next would replace its evidence. A log that is not there is not waited for.
func TestWitnessWaitsForASlowLog(t *testing.T) {
	t.Parallel()
	conn := bustest.New(t)
	p, s := witnessing(t, func(open func(context.Context) (publish.Log, error)) func(context.Context) (publish.Log, error) {
		var opened, read atomic.Int64
		return func(ctx context.Context) (publish.Log, error) {
			if opened.Add(1) == 1 {
				return nil, fmt.Errorf("opening the log: %w", context.DeadlineExceeded)
			}
			log, err := open(ctx)
			return slow{log, &read}, err
		}
	}, conn)
	before, err := s.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	write(t, conn, &watchv1.Message{
		History: &watchv1.History{Created: before.Created, Nonce: before.Nonce}, Revision: 1, Name: "ghost", Type: watchv1.Type_TYPE_PUT, Omitted: true,
	})
	if err := p.Witness(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, err := s.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if after == before {
		t.Error("etcd contradicts the log, but its history goes on")
	}
}

// TestWitnessDoesWithoutALog checks that a log that cannot be had is not waited for.
func TestWitnessDoesWithoutALog(t *testing.T) {
	t.Parallel()
	var opened atomic.Int64
	p, _ := witnessing(t, func(func(context.Context) (publish.Log, error)) func(context.Context) (publish.Log, error) {
		return func(context.Context) (publish.Log, error) {
			opened.Add(1)
			return nil, bus.ErrNoLog
		}
	}, bustest.New(t))
	if err := p.Witness(t.Context()); err != nil || opened.Load() != 1 {
		t.Errorf("%v after opening the log %d times, want once", err, opened.Load())
	}
}

// write writes a message about a pod to the log.
func write(t *testing.T, conn *bus.Conn, m *watchv1.Message) {
	t.Helper()
	log, err := logOn(t.Context(), conn)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	m.Resource, m.Namespace = "pods", "default"
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	at := subject.Watch("", "pods", "", "default", m.GetName())
	if m.GetType() == watchv1.Type_TYPE_PROGRESS {
		at = subject.Progress("", "pods")
	}
	kept := make(chan error, 1)
	if err := log.PublishAsync(at, data, "", func(err error) { kept <- err }); err != nil {
		t.Fatal(err)
	}
	if err := <-kept; err != nil {
		t.Fatal(err)
	}
}
