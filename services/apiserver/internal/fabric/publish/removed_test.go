package publish_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/publish"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// TestRemoved checks that a kind that is installed later is published, and that its removal is told:
// P7.
func TestRemoved(t *testing.T) {
	own, conn := scheme.New(), bustest.New(t)
	kind := &scheme.Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Gadget"}, Custom: true,
		Resource: "gadgets", StoragePrefix: "example.org/gadgets",
	}
	s, err := store.Open(t.Context(), store.Config{Servers: etcdtest.Start(t).Endpoints(), Table: own})
	if err != nil {
		t.Fatal(err)
	}
	feeds := feed.New(feed.Config{Store: s, Table: own})
	publisher := publish.New(publish.Config{
		Table: own, Feeds: feeds, Bus: conn, Parts: []publish.Part{{Storage: s, Holds: func(k *scheme.Kind) bool { return k.Custom }}},
	})
	got := make(chan watchv1.Type, 100)
	if _, err := conn.Subscribe(t.Context(), subject.Progress(kind.Group, kind.Resource), func(m bus.Message) {
		message := &watchv1.Message{}
		if err := proto.Unmarshal(m.Data, message); err != nil {
			t.Error(err)
		}
		got <- message.GetType()
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- feeds.Run(ctx) }()
	go func() { ended <- publisher.Run(ctx) }()
	defer func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	expect := func(want watchv1.Type) {
		t.Helper()
		for deadline := time.After(time.Minute); ; {
			select {
			case what := <-got:
				if what == want {
					return
				}
			case <-deadline:
				t.Fatalf("no message of type %v", want)
			}
		}
	}
	if err := own.Install(kind); err != nil {
		t.Fatal(err)
	}
	expect(watchv1.Type_TYPE_PROGRESS)
	own.Remove(kind.GroupVersionKind)
	expect(watchv1.Type_TYPE_REMOVED)
}
