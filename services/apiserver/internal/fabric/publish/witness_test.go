package publish_test

import (
	"context"
	"log/slog"
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
			conn, quiet := bustest.New(t), slog.New(slog.DiscardHandler)
			s, err := store.Open(t.Context(), store.Config{Servers: etcdtest.New(t), Table: table, Logger: quiet})
			if err != nil {
				t.Fatal(err)
			}
			made, err := s.Create(t.Context(), podKind, &corev1.Pod{ObjectMeta: meta("default", "true")})
			if err != nil {
				t.Fatal(err)
			}
			feeds := feed.New(feed.Config{Store: s, Table: table, Logger: quiet})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- feeds.Run(ctx) }()
			defer func() {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
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
			p := publish.New(publish.Config{
				Table: table,
				Parts: []publish.Part{{Storage: s, OpenLog: logOn(t.Context(), conn)}}, Feeds: feeds, Bus: conn, Logger: quiet,
			})
			if err := p.Witness(ctx); err != nil {
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
