package replay_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/subject"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// TestOneReaderDoesNotStopTheOthers checks that a client that reads all the time leaves room for
// the others.
func TestOneReaderDoesNotStopTheOthers(t *testing.T) {
	f := newFixture(t, func(ctx context.Context, asker subject.Client, _ *watchv1.Ask) error {
		if asker.Identity == "hostile" {
			<-ctx.Done()
		}
		return nil
	})
	f.open()
	f.ask(&watchv1.HistoryAsk{Resource: "pods"}) // wait until the server is up
	hostile := subject.Client{Inbox: f.conn.Client().Inbox, Identity: "hostile"}
	send := func(ask *watchv1.HistoryAsk, inbox string) {
		t.Helper()
		data, err := proto.Marshal(ask)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.conn.PublishRequest(t.Context(), hostile.History("", "pods"), inbox, data); err != nil {
			t.Fatal(err)
		}
	}
	for range 8 {
		send(&watchv1.HistoryAsk{Resource: "pods"}, f.conn.NewInbox())
	}
	if page := f.ask(&watchv1.HistoryAsk{Resource: "pods"}); page.GetOutcome() != watchv1.HistoryOutcome_HISTORY_OUTCOME_PAGE {
		t.Errorf("another reader got %v", page)
	}
	// An ask above the size limit is ignored.
	got := make(chan bus.Message, 10)
	inbox := f.conn.NewInbox()
	sub, err := f.conn.Subscribe(t.Context(), inbox, func(m bus.Message) { got <- m })
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	send(&watchv1.HistoryAsk{Resource: "pods", Name: strings.Repeat("x", 100<<10)}, inbox)
	send(&watchv1.HistoryAsk{Resource: "pods"}, inbox)
	select {
	case <-got:
	case <-time.After(patience):
		t.Fatal("no answer")
	}
	if len(got) > 0 {
		t.Error("an ask of 100 KB was answered")
	}
}
