package changefeed_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/changefeed"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

var (
	now   = &watchv1.History{Created: 2, Nonce: 2}
	older = &watchv1.History{Created: 1, Nonce: 1}
)

// put is a message about a ConfigMap in the namespace a; prev is the revision of the previous
// change in every view.
func put(revision, prev int64, name string) *watchv1.Message {
	return &watchv1.Message{
		History: now, Revision: revision, Type: watchv1.Type_TYPE_PUT, Resource: "configmaps", Version: "v1", Kind: "ConfigMap",
		Namespace: "a", Name: name, Uid: "u-" + name, Scope: "~", PrevAll: prev, PrevNamespace: prev, PrevScope: prev,
	}
}

func with(m *watchv1.Message, change func(*watchv1.Message)) *watchv1.Message {
	change(m)
	return m
}

func omitted(m *watchv1.Message) *watchv1.Message {
	return with(m, func(m *watchv1.Message) { m.Omitted = true })
}

func progress(seen, last int64) *watchv1.Message {
	return &watchv1.Message{History: now, Revision: seen, Type: watchv1.Type_TYPE_PROGRESS, Resource: "configmaps", PrevAll: last}
}

func subjectOf(m *watchv1.Message) string {
	if m.GetType() == watchv1.Type_TYPE_PROGRESS || m.GetType() == watchv1.Type_TYPE_GAP {
		return subject.Progress(m.GetGroup(), m.GetResource())
	}
	return subject.Watch(m.GetGroup(), m.GetResource(), m.GetScope(), m.GetNamespace(), m.GetName())
}

// plane stands in for the apiservers: it answers what a test sets.
type plane struct {
	t      *testing.T
	conn   *bus.Conn
	mu     sync.Mutex
	asks   []*watchv1.Ask
	answer func(ask *watchv1.Ask) *watchv1.Chunk
	log    []*watchv1.Message
	oldest int64
	// forged are sent before the answer to an ask that is not for a whole view, or before a page:
	// the first element at the first such ask, and so on.
	forged [][]proto.Message
}

func newPlane(t *testing.T, answer func(ask *watchv1.Ask) *watchv1.Chunk) *plane {
	t.Helper()
	p := &plane{t: t, conn: bustest.New(t), answer: answer, oldest: 1}
	serve := func(subject string, handle func(m bus.Message) proto.Message) {
		sub, err := p.conn.Subscribe(t.Context(), subject, func(m bus.Message) {
			p.send(m.Reply, handle(m))
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			sub.Unsubscribe()
			<-sub.Done() // Its last answers may report errors to this test.
		})
	}
	serve(subject.AllAsks(), func(m bus.Message) proto.Message {
		ask := &watchv1.Ask{}
		if err := proto.Unmarshal(m.Data, ask); err != nil {
			t.Error(err)
		}
		p.mu.Lock()
		p.asks = append(p.asks, ask)
		p.mu.Unlock()
		if ask.Since != nil {
			p.forge(m.Reply)
		}
		return p.answer(ask)
	})
	// Pages have two messages.
	serve(subject.AllHistory(), func(m bus.Message) proto.Message {
		ask := &watchv1.HistoryAsk{}
		if err := proto.Unmarshal(m.Data, ask); err != nil {
			t.Error(err)
		}
		p.forge(m.Reply)
		page := &watchv1.HistoryPage{Outcome: watchv1.HistoryOutcome_HISTORY_OUTCOME_PAGE, Oldest: p.oldest, Next: ask.GetFrom()}
		for page.GetNext() < uint64(len(p.log)) && len(page.GetMessages()) < 2 {
			page.Messages = append(page.Messages, &watchv1.LoggedMessage{Time: int64(time.Hour), Message: p.log[page.GetNext()]})
			page.Next++
		}
		page.End = page.GetNext() == uint64(len(p.log))
		return page
	})
	return p
}

func (p *plane) send(subject string, m proto.Message) {
	data, err := proto.Marshal(m)
	if err == nil {
		err = p.conn.Publish(context.WithoutCancel(p.t.Context()), subject, data)
	}
	if err != nil {
		p.t.Error(err)
	}
}

func (p *plane) forge(reply string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.forged) == 0 {
		return
	}
	for _, m := range p.forged[0] {
		p.send(reply, m)
	}
	p.forged = p.forged[1:]
}

// at returns the answer of an empty view at a revision.
func at(revision int64) *watchv1.Chunk {
	return &watchv1.Chunk{Answer: 1, Count: 1, Outcome: watchv1.Outcome_OUTCOME_WHOLE, History: now, Revision: revision}
}

func since(ask *watchv1.Ask, revision int64, entries ...*watchv1.Entry) *watchv1.Chunk {
	return &watchv1.Chunk{
		Answer: 2, Count: 1, Outcome: watchv1.Outcome_OUTCOME_CHANGES, History: now, Prev: ask.GetSince(), Revision: revision, Entries: entries,
	}
}

// told formats a record in short: type, origin, revision and name.
func told(r changefeed.Record) string {
	m := r.Message
	text := fmt.Sprintf("%s %s %d %s", strings.TrimPrefix(m.GetType().String(), "TYPE_"), r.Origin, m.GetRevision(), m.GetName())
	if m.GetType() == watchv1.Type_TYPE_GAP {
		text = fmt.Sprintf("GAP %d..%d", m.GetPrevAll(), m.GetRevision())
	}
	if m.GetOmitted() {
		text += " omitted"
	}
	return text
}

// read reads as many records as are wanted and compares them.
func (p *plane) read(cfg changefeed.Config, messages []*watchv1.Message, want ...string) {
	p.t.Helper()
	// The last message shows that nothing else came before it.
	if got := p.first(len(want), cfg, messages); strings.Join(got, "\n") != strings.Join(want, "\n") {
		p.t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// first reads until n records came, and returns them.
func (p *plane) first(n int, cfg changefeed.Config, messages []*watchv1.Message) []string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	cfg.Conn = p.conn
	if cfg.Resource.Empty() {
		cfg.Resource, cfg.View = schema.GroupResource{Resource: "configmaps"}, fabric.View{Namespace: "a"}
	}
	records := make(chan string, 100)
	done := make(chan error, 1)
	go func() {
		done <- changefeed.Read(ctx, cfg, func(r changefeed.Record) error {
			records <- told(r)
			return nil
		})
	}()
	// The reader has subscribed when it asks for the present.
	for len(messages) > 0 {
		p.mu.Lock()
		asked := len(p.asks) > 0
		p.mu.Unlock()
		if asked {
			break
		}
	}
	for _, m := range messages {
		p.send(subjectOf(m), m)
	}
	var got []string
	for len(got) < n {
		select {
		case text := <-records:
			got = append(got, text)
		case err := <-done:
			// It may have ended after it had emitted everything.
			if done <- err; len(records) == 0 {
				p.t.Fatalf("reading ended with %v after %q", err, got)
			}
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) && (err != nil || !cfg.Once) {
		p.t.Errorf("reading ended with %v", err)
	}
	return got
}

func TestLiveChangesAreEmittedOnce(t *testing.T) {
	p := newPlane(t, func(*watchv1.Ask) *watchv1.Chunk { return at(10) })
	began := time.Now()
	p.read(changefeed.Config{}, []*watchv1.Message{
		put(9, 8, "past"), put(11, 10, "x"), put(11, 10, "x"), omitted(put(13, 11, "y")), omitted(put(13, 11, "z")), omitted(put(13, 11, "y")),
		with(put(14, 13, "left"), func(m *watchv1.Message) { m.Type = watchv1.Type_TYPE_LEFT }),
		with(put(14, 3, "old"), func(m *watchv1.Message) { m.History = older }),
		progress(20, 13), put(15, 13, "late"), with(put(21, 15, "x"), func(m *watchv1.Message) { m.Type = watchv1.Type_TYPE_DELETED }),
	}, "PUT live 11 x", "PUT live 13 y omitted", "PUT live 13 z omitted", "DELETED live 21 x")
	p.mu.Lock()
	defer p.mu.Unlock()
	// An unanswered ask is repeated after five seconds, and new changes are asked for after a
	// silence.
	slow := time.Since(began) >= 5*time.Second
	if len(p.asks) != 1 && !slow || slices.ContainsFunc(p.asks, func(ask *watchv1.Ask) bool { return ask.GetMinimum() != 0 }) {
		t.Errorf("got %d asks, want only the one for the present: %v", len(p.asks), p.asks)
	}
}

func TestLostMessagesAreAskedFor(t *testing.T) {
	p := newPlane(t, func(ask *watchv1.Ask) *watchv1.Chunk {
		switch {
		case ask.Since == nil:
			return at(10)
		case ask.GetSince() == 11 && ask.GetMinimum() == 15:
			return since(ask, 16, &watchv1.Entry{Revision: 16, Namespace: "a", Name: "z", Deleted: true}, &watchv1.Entry{Revision: 12, Namespace: "a", Name: "y"})
		}
		t.Errorf("unexpected ask for %v", ask)
		return at(0)
	})
	p.read(changefeed.Config{}, []*watchv1.Message{put(11, 10, "x"), put(15, 12, "z"), put(16, 15, "z"), put(17, 16, "z")},
		"PUT live 11 x", "PUT answer 12 y", "DELETED answer 16 z", "PUT live 17 z")
}

func TestUnknownChangesAreAGap(t *testing.T) {
	p := newPlane(t, func(ask *watchv1.Ask) *watchv1.Chunk {
		if ask.Since == nil {
			return at(10)
		}
		whole := at(30)
		whole.Entries = []*watchv1.Entry{{Revision: 5, Namespace: "a", Name: "known"}, {Revision: 25, Namespace: "a", Name: "new"}}
		return whole
	})
	p.read(changefeed.Config{}, []*watchv1.Message{put(29, 28, "x"), put(31, 30, "y")},
		"GAP 10..30", "PUT answer 25 new", "PUT live 31 y")
}

func TestAnotherHistory(t *testing.T) {
	p := newPlane(t, func(ask *watchv1.Ask) *watchv1.Chunk {
		if ask.Since == nil {
			chunk := at(100)
			chunk.History = older
			return chunk
		}
		whole := at(30)
		whole.Entries = []*watchv1.Entry{{Revision: 5, Namespace: "a", Name: "there"}}
		return whole
	})
	p.read(changefeed.Config{}, []*watchv1.Message{put(30, 28, "x"), put(31, 30, "y")},
		"GAP 0..30", "PUT answer 5 there", "PUT live 31 y")
}

func TestObjectsComeFirst(t *testing.T) {
	p := newPlane(t, func(ask *watchv1.Ask) *watchv1.Chunk {
		if ask.GetName() != "" || !ask.GetFresh() {
			t.Errorf("unexpected ask for %v", ask)
		}
		whole := at(10)
		whole.Entries = []*watchv1.Entry{{Revision: 7, Namespace: "a", Name: "y"}, {Revision: 3, Namespace: "a", Name: "x"}}
		return whole
	})
	p.read(changefeed.Config{Objects: true}, []*watchv1.Message{put(11, 10, "z")}, "PUT present 3 x", "PUT present 7 y", "PUT live 11 z")
}

func TestBodiesAreResolved(t *testing.T) {
	p := newPlane(t, func(ask *watchv1.Ask) *watchv1.Chunk {
		if ask.Since == nil {
			return at(10)
		}
		return since(ask, 12, &watchv1.Entry{Revision: 12, Namespace: "a", Name: "x", Body: []byte("here")})
	})
	p.read(changefeed.Config{Resolve: true}, []*watchv1.Message{omitted(put(12, 10, "x")), put(13, 12, "y")},
		"PUT answer 12 x", "PUT live 13 y")
}

func TestLogThenPresent(t *testing.T) {
	var p *plane
	p = newPlane(t, func(ask *watchv1.Ask) *watchv1.Chunk {
		if ask.Since == nil {
			return at(20)
		}
		if ask.GetSince() != 15 {
			t.Errorf("got an ask since %d, want 15", ask.GetSince())
		}
		live := put(21, 18, "live")
		p.send(subjectOf(live), live)
		return since(ask, 20, &watchv1.Entry{Revision: 18, Namespace: "a", Name: "unlogged"})
	})
	p.log = []*watchv1.Message{
		put(5, 4, "a"), put(8, 7, "c"), // 7 comes late: it was sent again
		put(7, 5, "b"), put(8, 7, "c"), progress(9, 8),
		put(12, 11, "hole"), progress(13, 12), put(15, 12, "end"),
	}
	p.read(changefeed.Config{History: true}, []*watchv1.Message{put(15, 12, "end")},
		"PUT log 5 a", "PUT log 7 b", "PUT log 8 c", "GAP 9..12", "PUT log 12 hole", "PUT log 15 end", "PUT answer 18 unlogged", "PUT live 21 live")
}

func TestLogThenLiveMessages(t *testing.T) {
	var p *plane
	p = newPlane(t, func(ask *watchv1.Ask) *watchv1.Chunk {
		if ask.Since != nil {
			return since(ask, 12, &watchv1.Entry{Revision: 12, Namespace: "a", Name: "c"})
		}
		// The live messages arrive while the log is being read.
		for _, m := range []*watchv1.Message{put(11, 10, "b"), put(12, 11, "c")} {
			p.send(subjectOf(m), m)
		}
		return at(12)
	})
	p.log = []*watchv1.Message{put(10, 9, "a"), put(11, 10, "b")}
	for range 100 {
		got := p.first(3, changefeed.Config{History: true, Once: true}, nil)
		switch text := strings.Join(got, ", "); text {
		case "PUT log 10 a, PUT log 11 b, PUT live 12 c":
			return
		case "PUT log 10 a, PUT log 11 b, PUT answer 12 c":
			// The reader got the whole log before the live messages, which wait elsewhere.
		default:
			t.Fatalf("got %s", text)
		}
	}
	t.Error("the live messages are always asked for")
}

func TestLogBeginsTooLate(t *testing.T) {
	p := newPlane(t, func(*watchv1.Ask) *watchv1.Chunk { return at(12) })
	p.oldest, p.log = int64(time.Hour), []*watchv1.Message{put(12, 9, "a")}
	p.read(changefeed.Config{History: true, Since: time.Unix(1, 0)}, nil, "GAP 0..0", "PUT log 12 a")
	p.read(changefeed.Config{History: true, After: 8}, nil, "GAP 8..12", "PUT log 12 a")
}

func TestGapsInTheLog(t *testing.T) {
	p := newPlane(t, func(*watchv1.Ask) *watchv1.Chunk { return at(12) })
	p.log = []*watchv1.Message{
		put(5, 4, "a"), with(progress(9, 9), func(m *watchv1.Message) { m.Type = watchv1.Type_TYPE_GAP }), put(12, 9, "b"),
	}
	p.read(changefeed.Config{History: true}, nil, "PUT log 5 a", "GAP 0..9", "GAP 5..12", "PUT log 12 b")
}

func TestRefusals(t *testing.T) {
	p := newPlane(t, func(*watchv1.Ask) *watchv1.Chunk {
		return &watchv1.Chunk{Count: 1, Outcome: watchv1.Outcome_OUTCOME_FORBIDDEN, Reason: "you may not"}
	})
	err := changefeed.Read(t.Context(), changefeed.Config{Conn: p.conn, Resource: schema.GroupResource{Resource: "configmaps"}}, func(changefeed.Record) error { return nil })
	if !errors.Is(err, changefeed.ErrRefused) || !strings.Contains(err.Error(), "you may not") {
		t.Errorf("got %v", err)
	}
}

// TestForgedAnswersAreDiscarded checks that the reader discards forged answers to an ask, and
// waits for a valid one.
func TestForgedAnswersAreDiscarded(t *testing.T) {
	t.Parallel()
	forged := func(change func(c *watchv1.Chunk)) *watchv1.Chunk {
		c := &watchv1.Chunk{
			Answer: 9, Count: 1, Outcome: watchv1.Outcome_OUTCOME_CHANGES, History: now, Prev: 10, Revision: 15,
			Entries: []*watchv1.Entry{{Revision: 15, Namespace: "a", Name: "forged"}},
		}
		change(c)
		return c
	}
	half := func(index, count uint32, change func(c *watchv1.Chunk)) *watchv1.Chunk {
		return forged(func(c *watchv1.Chunk) {
			c.Index, c.Count = index, count
			change(c)
		})
	}
	same := func(*watchv1.Chunk) {}
	var many []proto.Message
	for id := range uint64(8) {
		many = append(many, half(0, 0, func(c *watchv1.Chunk) { c.Answer = 100 + id }))
	}
	for name, answer := range map[string][]proto.Message{
		"too many answers": append(many, forged(same)),
		"chunks of two histories": {
			half(0, 0, same), half(1, 2, func(c *watchv1.Chunk) { c.History = older }),
		},
		"chunks that begin at two revisions": {
			half(0, 0, same), half(1, 2, func(c *watchv1.Chunk) { c.Prev = 3 }),
		},
		"chunks of two outcomes": {
			half(0, 0, same), half(1, 2, func(c *watchv1.Chunk) { c.Outcome = watchv1.Outcome_OUTCOME_WHOLE }),
		},
		"chunks of different counts": {half(2, 0, same), half(0, 0, same), half(1, 2, same)},
		"a prev after the position":  {forged(func(c *watchv1.Chunk) { c.Prev = 11 })},
		"changes of a newer history": {
			forged(func(c *watchv1.Chunk) { c.History = &watchv1.History{Created: 3, Nonce: 3} }),
		},
		"changes of an older history": {forged(func(c *watchv1.Chunk) { c.History = older })},
		"a whole view of an older history": {
			forged(func(c *watchv1.Chunk) { c.History, c.Outcome = older, watchv1.Outcome_OUTCOME_WHOLE }),
		},
		"no history":                 {forged(func(c *watchv1.Chunk) { c.History = nil })},
		"an entry after the answer":  {forged(func(c *watchv1.Chunk) { c.Entries[0].Revision = 16 })},
		"an entry outside the view":  {forged(func(c *watchv1.Chunk) { c.Entries[0].Namespace = "b" })},
		"a deletion in a whole view": {forged(func(c *watchv1.Chunk) { c.Outcome, c.Entries[0].Deleted = watchv1.Outcome_OUTCOME_WHOLE, true })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlane(t, func(ask *watchv1.Ask) *watchv1.Chunk {
				if ask.Since == nil {
					return at(10)
				}
				return since(ask, 15, &watchv1.Entry{Revision: 15, Namespace: "a", Name: "true"}, &watchv1.Entry{Revision: 12, Namespace: "a", Name: "true"})
			})
			p.forged = [][]proto.Message{answer}
			p.read(changefeed.Config{}, []*watchv1.Message{put(15, 14, "true")}, "PUT answer 12 true", "PUT answer 15 true")
		})
	}
}

// TestForgedPagesAreDiscarded checks that the reader asks again for an impossible page of the log.
func TestForgedPagesAreDiscarded(t *testing.T) {
	t.Parallel()
	page := func(change func(page *watchv1.HistoryPage, m *watchv1.Message)) *watchv1.HistoryPage {
		m := put(5, 4, "forged")
		page := &watchv1.HistoryPage{
			Outcome: watchv1.HistoryOutcome_HISTORY_OUTCOME_PAGE, Oldest: 1, Next: 7,
			Messages: []*watchv1.LoggedMessage{{Time: 1, Message: m}},
		}
		change(page, m)
		return page
	}
	for name, forged := range map[string]*watchv1.HistoryPage{
		"no progress":               page(func(page *watchv1.HistoryPage, _ *watchv1.Message) { page.Next = 0 }),
		"no message":                page(func(page *watchv1.HistoryPage, _ *watchv1.Message) { page.Messages[0].Message = nil }),
		"another resource":          page(func(_ *watchv1.HistoryPage, m *watchv1.Message) { m.Resource = "secrets" }),
		"another namespace":         page(func(_ *watchv1.HistoryPage, m *watchv1.Message) { m.Namespace = "b" }),
		"no history":                page(func(_ *watchv1.HistoryPage, m *watchv1.Message) { m.History = nil }),
		"a prev above the revision": page(func(_ *watchv1.HistoryPage, m *watchv1.Message) { m.PrevNamespace = 5 }),
		"no type":                   page(func(_ *watchv1.HistoryPage, m *watchv1.Message) { m.Type = 0 }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlane(t, func(*watchv1.Ask) *watchv1.Chunk { return at(12) })
			p.log = []*watchv1.Message{put(12, 9, "true")}
			p.forged = [][]proto.Message{{forged}}
			p.read(changefeed.Config{History: true, After: 9}, nil, "PUT log 12 true")
		})
	}
}

func TestWriting(t *testing.T) {
	table := scheme.New()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x", UID: types.UID("u-x")}, Data: map[string]string{"k": "v"}}
	body, err := table.EncodeStorage(scheme.For[*corev1.ConfigMap](table), object)
	if err != nil {
		t.Fatal(err)
	}
	records := []changefeed.Record{
		{Origin: changefeed.Live, Message: with(put(7, 6, "x"), func(m *watchv1.Message) { m.Body = body })},
		{Origin: changefeed.Logged, Time: time.Unix(0, 0).UTC(), Message: omitted(put(8, 7, "y"))},
		{Origin: changefeed.Live, Message: with(put(9, 8, "z"), func(m *watchv1.Message) { m.Body = []byte("k8s\x00junk") })},
		{Origin: changefeed.Missing, Reason: "why", Message: &watchv1.Message{Type: watchv1.Type_TYPE_GAP, PrevAll: 9, Revision: 12}},
	}
	var text, wire bytes.Buffer
	for _, write := range []func(changefeed.Record) error{changefeed.JSON(&text, table), changefeed.Protobuf(&wire)} {
		for _, r := range records {
			if err := write(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(lines) != len(records) {
		t.Fatalf("%d lines:\n%s", len(lines), text.String())
	}
	const first = `{"type":"PUT","origin":"live","revision":7,"namespace":"a","name":"x","uid":"u-x","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"a","uid":"u-x","resourceVersion":"7"},"data":{"k":"v"}}}`
	if lines[0] != first {
		t.Errorf("the first line is\n%s, want\n%s", lines[0], first)
	}
	const second = `{"type":"PUT","origin":"log","time":"1970-01-01T00:00:00Z","revision":8,"namespace":"a","name":"y","uid":"u-y","omitted":true}`
	if lines[1] != second {
		t.Errorf("the second line is\n%s, want\n%s", lines[1], second)
	}
	var third struct{ Fault, Name string }
	if err := json.Unmarshal([]byte(lines[2]), &third); err != nil || third.Fault == "" || third.Name != "z" {
		t.Errorf("an undecodable body is written as %s", lines[2])
	}
	if lines[3] != `{"type":"GAP","origin":"gap","after":9,"revision":12,"reason":"why"}` {
		t.Errorf("a gap is written as %s", lines[3])
	}
	for i, r := range records {
		m := &watchv1.Message{}
		if err := protodelim.UnmarshalFrom(&wire, m); err != nil || !proto.Equal(m, r.Message) {
			t.Errorf("message %d is decoded as %v, %v", i, m, err)
		}
	}
}
