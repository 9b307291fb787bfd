package replay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/replay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

type fixture struct {
	t    *testing.T
	conn *bus.Conn
	log  *bus.Log
}

// newFixture starts NATS with a log, and a server that reads the log.
func newFixture(t *testing.T, authorize func(context.Context, subject.Client, *watchv1.Ask) error) *fixture {
	t.Helper()
	f := &fixture{t: t, conn: bustest.New(t)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	server := replay.New(replay.Config{
		Table: scheme.New(), Bus: f.conn, Authorize: authorize,
		LogOf: func(*scheme.Kind) replay.Log { return f.conn.ReadLog("LOG") },
	})
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *fixture) open() {
	f.t.Helper()
	log, err := f.conn.OpenLog(f.t.Context(), bus.LogConfig{Stream: "LOG", Subjects: []string{subject.AllWatch()}})
	if err != nil {
		f.t.Fatal(err)
	}
	f.log = log
	f.t.Cleanup(log.Close)
}

// publish writes messages to the log, one after the other.
func (f *fixture) publish(messages ...*watchv1.Message) {
	f.t.Helper()
	for _, m := range messages {
		at := subject.Watch(m.GetGroup(), m.GetResource(), m.GetScope(), m.GetNamespace(), m.GetName())
		if m.GetType() >= watchv1.Type_TYPE_PROGRESS {
			at = subject.Progress(m.GetGroup(), m.GetResource())
		}
		f.put(at, m)
	}
}

func (f *fixture) put(subject string, m *watchv1.Message) {
	f.t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		f.t.Fatal(err)
	}
	acked := make(chan error, 1)
	if err := f.log.PublishAsync(subject, data, "", func(err error) { acked <- err }); err != nil {
		f.t.Fatal(err)
	}
	if err := <-acked; err != nil {
		f.t.Fatal(err)
	}
}

// ask repeats an ask until it is answered.
func (f *fixture) ask(ask *watchv1.HistoryAsk) *watchv1.HistoryPage {
	f.t.Helper()
	subject := f.conn.Client().History(ask.GetGroup(), ask.GetResource())
	data, err := proto.Marshal(ask)
	if err != nil {
		f.t.Fatal(err)
	}
	pages := make(chan bus.Message, 1)
	inbox := f.conn.NewInbox()
	sub, err := f.conn.Subscribe(f.t.Context(), inbox, func(m bus.Message) { pages <- m })
	if err != nil {
		f.t.Fatal(err)
	}
	defer sub.Unsubscribe()
	for end := time.Now().Add(patience); ; {
		if err := f.conn.PublishRequest(f.t.Context(), subject, inbox, data); err != nil {
			f.t.Fatal(err)
		}
		select {
		case m := <-pages:
			if m.NoResponders() {
				continue // the server is still starting
			}
			page := &watchv1.HistoryPage{}
			if err := proto.Unmarshal(m.Data, page); err != nil {
				f.t.Fatal(err)
			}
			if page.GetOutcome() == watchv1.HistoryOutcome_HISTORY_OUTCOME_NOT_YET && time.Now().Before(end) {
				continue // JetStream may take longer than the server waits
			}
			return page
		case <-time.After(patience):
			f.t.Fatal("no answer")
		}
	}
}

func message(revision int64, what watchv1.Type, scope, namespace, name string) *watchv1.Message {
	return &watchv1.Message{
		History: &watchv1.History{Created: 1}, Revision: revision, Type: what, Resource: "pods", Scope: scope, Namespace: namespace, Name: name,
	}
}

const (
	put     = watchv1.Type_TYPE_PUT
	deleted = watchv1.Type_TYPE_DELETED
	left    = watchv1.Type_TYPE_LEFT
	gap     = watchv1.Type_TYPE_GAP
	passed  = watchv1.Type_TYPE_PROGRESS
)

func revisions(page *watchv1.HistoryPage) string {
	var all []string
	for _, logged := range page.GetMessages() {
		all = append(all, fmt.Sprint(logged.GetMessage().GetRevision()))
	}
	return strings.Join(all, " ")
}

func TestViews(t *testing.T) {
	f := newFixture(t, nil)
	if page := f.ask(&watchv1.HistoryAsk{Resource: "pods"}); !page.GetEnd() || page.GetOutcome() != watchv1.HistoryOutcome_HISTORY_OUTCOME_PAGE {
		t.Errorf("without a log: %v", page)
	}
	f.open()
	f.publish(
		message(1, put, "~", "a", "x"), message(2, put, "n1", "a", "x"), message(2, left, "~", "a", "x"), message(3, put, "n1", "b", "x"),
		message(4, passed, "", "", ""), message(5, deleted, "n1", "a", "x"), message(6, gap, "", "", ""), message(7, put, "~", "b", "y"),
	)
	// Neither message belongs at its subject.
	f.put(subject.Watch("", "pods", "~", "a", "forged"), message(8, put, "~", "b", "y"))
	f.put(subject.Watch("", "pods", "~", "a", "forged"), message(9, gap, "", "", ""))
	nodes := message(10, put, "~", "", "n1")
	nodes.Resource = "nodes"
	f.publish(nodes)
	for _, tc := range []struct {
		name string
		ask  *watchv1.HistoryAsk
		want string
	}{
		{"whole", &watchv1.HistoryAsk{}, "1 2 3 4 5 6 7"},
		{"namespace", &watchv1.HistoryAsk{Namespace: "a"}, "1 2 4 5 6"},
		{"name", &watchv1.HistoryAsk{Namespace: "b", Name: "x"}, "3 4 6"},
		{"node", &watchv1.HistoryAsk{Scope: "n1"}, "2 3 4 5 6"},
		{"unbound", &watchv1.HistoryAsk{Scope: "~"}, "1 2 4 6 7"},
		{"node and namespace", &watchv1.HistoryAsk{Scope: "n1", Namespace: "b"}, "3 4 6"},
		{"after a revision", &watchv1.HistoryAsk{After: 5}, "6 7"},
		{"from a place", &watchv1.HistoryAsk{From: 5}, "4 5 6 7"},
		{"from the future", &watchv1.HistoryAsk{Since: time.Now().Add(time.Hour).UnixNano()}, ""},
		{"from the past", &watchv1.HistoryAsk{Since: 1}, "1 2 3 4 5 6 7"},
	} {
		tc.ask.Resource = "pods"
		page := f.ask(tc.ask)
		if got := revisions(page); got != tc.want || !page.GetEnd() || page.GetNext() != 12 || page.GetOldest() == 0 {
			t.Errorf("%s: %q, want %q; %v", tc.name, got, tc.want, page)
		}
	}
	page := f.ask(&watchv1.HistoryAsk{Resource: "pods"})
	third := page.GetMessages()[2].GetTime()
	if page := f.ask(&watchv1.HistoryAsk{Resource: "pods", Since: third}); revisions(page) != "3 4 5 6 7" {
		t.Errorf("since the fourth message: %q", revisions(page))
	}
}

func TestPages(t *testing.T) {
	f := newFixture(t, nil)
	f.open()
	for i := range 7 {
		m := message(int64(i+1), put, "~", "a", "x")
		m.Body = make([]byte, 100<<10)
		f.publish(m)
	}
	var got []string
	ask := &watchv1.HistoryAsk{Resource: "pods"}
	for pages := 1; ; pages++ {
		page := f.ask(ask)
		got = append(got, revisions(page))
		if ask.From = page.GetNext(); page.GetEnd() {
			break
		}
	}
	if want := "1 2|3 4|5 6|7"; strings.Join(got, "|") != want {
		t.Errorf("the pages are %q, want %q", strings.Join(got, "|"), want)
	}
	f.publish(message(8, put, "~", "a", "x"))
	if page := f.ask(ask); revisions(page) != "8" {
		t.Errorf("after the end: %q", revisions(page))
	}
}

func TestUnauthorizedReadersAreRefused(t *testing.T) {
	f := newFixture(t, func(_ context.Context, _ subject.Client, ask *watchv1.Ask) error {
		if ask.GetNamespace() != "mine" || ask.GetResource() != "pods" || ask.GetScope() != "n" || ask.GetName() != "x" {
			return errors.New("you may not")
		}
		return nil
	})
	f.open()
	page := f.ask(&watchv1.HistoryAsk{Resource: "pods", Namespace: "other", Scope: "n", Name: "x"})
	if page.GetOutcome() != watchv1.HistoryOutcome_HISTORY_OUTCOME_FORBIDDEN || page.GetReason() != "you may not" {
		t.Errorf("the answer is %v", page)
	}
	if page := f.ask(&watchv1.HistoryAsk{Resource: "pods", Namespace: "mine", Scope: "n", Name: "x"}); page.GetOutcome() != watchv1.HistoryOutcome_HISTORY_OUTCOME_PAGE {
		t.Errorf("the answer is %v", page)
	}
	if page := f.ask(&watchv1.HistoryAsk{Resource: "sheep"}); page.GetOutcome() != watchv1.HistoryOutcome_HISTORY_OUTCOME_NOT_FOUND {
		t.Errorf("the answer is %v", page)
	}
}

func TestAnswersGoOnlyToTheAskersInbox(t *testing.T) {
	f := newFixture(t, nil)
	f.open()
	f.ask(&watchv1.HistoryAsk{Resource: "pods"}) // wait until the server is up
	heard := make(chan bus.Message, 10_000)
	target := subject.Watch("", "pods", "~", "a", "forged")
	sub, err := f.conn.Subscribe(t.Context(), ">", func(m bus.Message) { heard <- m })
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	data, err := proto.Marshal(&watchv1.HistoryAsk{Resource: "pods"})
	if err != nil {
		t.Fatal(err)
	}
	own := f.conn.Client().History("", "pods")
	for _, reply := range []string{target, "_INBOX.another.x", "$JS.API.STREAM.PURGE.LOG"} {
		if err := f.conn.PublishRequest(t.Context(), own, reply, data); err != nil {
			t.Fatal(err)
		}
	}
	// This ask names another resource than its subject.
	if err := f.conn.PublishRequest(t.Context(), f.conn.Client().History("", "nodes"), f.conn.NewInbox(), data); err != nil {
		t.Fatal(err)
	}
	f.ask(&watchv1.HistoryAsk{Resource: "pods", Name: "last"})
	sub.Drain() // Drain still delivers messages that have arrived, however late.
	<-sub.Done()
	close(heard)
	answers := 0
	for m := range heard {
		if m.Reply == "" && !strings.HasPrefix(m.Subject, "$JS.") {
			answers++
			if !f.conn.Client().Owns(m.Subject) {
				t.Errorf("something was sent to %s", m.Subject)
			}
		}
	}
	// The other messages are JetStream's answers to the server.
	if answers == 0 {
		t.Error("the last ask was not answered either")
	}
}
