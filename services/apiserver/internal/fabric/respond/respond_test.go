package respond_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/respond"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const deadline = 60 * time.Second

var (
	table   = scheme.New()
	podKind = scheme.For[*corev1.Pod](table)
)

type plane struct {
	t       *testing.T
	store   *store.Store
	feeds   *feed.Feeds
	conn    *bus.Conn
	history *watchv1.History
}

func start(t *testing.T, cfg respond.Config, window int) *plane {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	s, err := store.Open(t.Context(), store.Config{Servers: etcdtest.New(t), Table: table, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	p := &plane{t: t, store: s, conn: bustest.New(t)}
	p.feeds = feed.New(feed.Config{Store: s, Table: table, Logger: quiet, WindowEvents: window})
	if cfg.Storage == nil {
		cfg.Storage = s
	}
	cfg.Feeds, cfg.Table, cfg.Bus, cfg.Logger = p.feeds, table, p.conn, quiet
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{p.feeds.Run, respond.New(cfg).Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Errorf("running: %v", err)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	history, err := s.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.history = &watchv1.History{Created: history.Created, Nonce: history.Nonce}
	// The responder listens as soon as it answers.
	for end := time.Now().Add(deadline); time.Now().Before(end); {
		if a := p.ask(&watchv1.Ask{Resource: "nothing"}, time.Second); a != nil {
			return p
		}
	}
	t.Fatal("the responder does not answer")
	return nil
}

// answer is a complete answer.
type answer struct {
	*watchv1.Chunk
	chunks  int
	largest int
	entries []*watchv1.Entry
}

// ask returns the answer, or nil if none came in time.
func (p *plane) ask(ask *watchv1.Ask, patience time.Duration) *answer {
	p.t.Helper()
	data, err := proto.Marshal(ask)
	if err != nil {
		p.t.Fatal(err)
	}
	inbox := p.conn.NewInbox()
	got := make(chan bus.Message, 1000)
	sub, err := p.conn.Subscribe(p.t.Context(), inbox, func(m bus.Message) { got <- m })
	if err != nil {
		p.t.Fatal(err)
	}
	defer sub.Unsubscribe()
	if err := p.conn.PublishRequest(p.t.Context(), p.conn.Client().Ask(ask.GetGroup(), ask.GetResource()), inbox, data); err != nil {
		p.t.Fatal(err)
	}
	a := &answer{}
	timeout := time.After(patience)
	for {
		select {
		case m := <-got:
			if m.NoResponders() {
				return nil
			}
			chunk := &watchv1.Chunk{}
			if err := proto.Unmarshal(m.Data, chunk); err != nil {
				p.t.Fatal(err)
			}
			if int(chunk.GetIndex()) != a.chunks || a.Chunk != nil && chunk.GetAnswer() != a.GetAnswer() {
				p.t.Fatalf("chunk %d of answer %x after %d chunks", chunk.GetIndex(), chunk.GetAnswer(), a.chunks)
			}
			a.Chunk, a.largest = chunk, max(a.largest, len(m.Data))
			a.chunks++
			a.entries = append(a.entries, chunk.GetEntries()...)
			if chunk.GetCount() != 0 {
				if int(chunk.GetCount()) != a.chunks {
					p.t.Fatalf("%d chunks, said to be %d", a.chunks, chunk.GetCount())
				}
				return a
			}
		case <-timeout:
			return nil
		}
	}
}

func (p *plane) mustAsk(ask *watchv1.Ask, want watchv1.Outcome) *answer {
	p.t.Helper()
	a := p.ask(ask, deadline)
	// The feed may take longer than the responder waits.
	for end := time.Now().Add(deadline); a != nil && a.GetOutcome() == watchv1.Outcome_OUTCOME_NOT_YET && want != a.GetOutcome() && time.Now().Before(end); {
		a = p.ask(ask, deadline)
	}
	if a == nil {
		p.t.Fatalf("no answer to %v", ask)
	}
	if a.GetOutcome() != want {
		p.t.Fatalf("%v: outcome %v (%s), want %v", ask, a.GetOutcome(), a.GetReason(), want)
	}
	return a
}

func (p *plane) create(obj scheme.Object) int64 {
	p.t.Helper()
	made, err := p.store.Create(p.t.Context(), table.KindOf(obj), obj)
	if err != nil {
		p.t.Fatal(err)
	}
	n, err := strconv.ParseInt(made.GetResourceVersion(), 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func pod(namespace, name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

func names(entries []*watchv1.Entry) string {
	var all []string
	for _, e := range entries {
		sign := ""
		if e.GetDeleted() {
			sign = "-"
		}
		all = append(all, sign+e.GetNamespace()+"/"+e.GetName())
	}
	return strings.Join(all, " ")
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	p := start(t, respond.Config{}, 0)
	first := p.create(pod("x", "a", ""))
	p.create(pod("x", "b", "n1"))
	third := p.create(pod("y", "c", "n1"))

	whole := p.mustAsk(&watchv1.Ask{Resource: "pods", Fresh: true}, watchv1.Outcome_OUTCOME_WHOLE)
	if names(whole.entries) != "x/a x/b y/c" || whole.GetRevision() < third || !proto.Equal(whole.GetHistory(), p.history) {
		t.Errorf("the whole view: %s at %d of %v", names(whole.entries), whole.GetRevision(), whole.GetHistory())
	}
	for i, e := range whole.entries {
		obj, err := table.DecodeStorage(podKind, e.GetBody())
		if err != nil || string(obj.GetUID()) != e.GetUid() || e.GetEncoding() != watchv1.Encoding_ENCODING_KUBERNETES_PROTOBUF {
			t.Errorf("entry %d: %v, %v", i, e, err)
		}
	}
	scoped := p.mustAsk(&watchv1.Ask{Resource: "pods", Scope: "n1", Minimum: third}, watchv1.Outcome_OUTCOME_WHOLE)
	if names(scoped.entries) != "x/b y/c" {
		t.Errorf("the scope's view: %s", names(scoped.entries))
	}

	if _, err := p.store.Update(t.Context(), podKind, "x", "a", func(o scheme.Object) (scheme.Object, error) {
		o.(*corev1.Pod).Spec.NodeName = "n1"
		return o, nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.store.Delete(t.Context(), podKind, "x", "b", nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ask  *watchv1.Ask
		want string
	}{
		{&watchv1.Ask{Scope: "~"}, "-x/a"},
		{&watchv1.Ask{Scope: "n1"}, "x/a -x/b"},
		{&watchv1.Ask{Namespace: "x"}, "x/a -x/b"},
		{&watchv1.Ask{Namespace: "y"}, ""},
		{&watchv1.Ask{}, "x/a -x/b"},
	} {
		c.ask.Resource, c.ask.Since, c.ask.History, c.ask.Fresh = "pods", &third, p.history, true
		a := p.mustAsk(c.ask, watchv1.Outcome_OUTCOME_CHANGES)
		if names(a.entries) != c.want || a.GetPrev() != third || a.GetRevision() < third+2 {
			t.Errorf("%v: %s in (%d, %d], want %s", c.ask, names(a.entries), a.GetPrev(), a.GetRevision(), c.want)
		}
	}
	named := p.mustAsk(&watchv1.Ask{Resource: "pods", Namespace: "x", Name: "b", Since: &first, History: p.history, Fresh: true}, watchv1.Outcome_OUTCOME_WHOLE)
	if len(named.entries) != 0 {
		t.Errorf("a deleted name: %s", names(named.entries))
	}
	stranger := &watchv1.Ask{Resource: "pods", Fresh: true, Since: proto.Int64(1 << 40), Minimum: 1 << 40, History: &watchv1.History{Created: 1}}
	if a := p.mustAsk(stranger, watchv1.Outcome_OUTCOME_WHOLE); names(a.entries) != "x/a y/c" {
		t.Errorf("an ask with another history: %s", names(a.entries))
	}
	p.mustAsk(&watchv1.Ask{Resource: "nothing"}, watchv1.Outcome_OUTCOME_NOT_FOUND)
	p.mustAsk(&watchv1.Ask{Group: "events.k8s.io", Resource: "events"}, watchv1.Outcome_OUTCOME_NOT_FOUND)
	late := p.mustAsk(&watchv1.Ask{Resource: "pods", Minimum: 1 << 40, History: p.history}, watchv1.Outcome_OUTCOME_NOT_YET)
	if late.GetReason() == "" || len(late.entries) != 0 || late.GetRevision() < first {
		t.Errorf("not yet: %v", late.Chunk)
	}
}

func TestBelowTheWindow(t *testing.T) {
	t.Parallel()
	p := start(t, respond.Config{}, 3)
	first := p.create(pod("x", "p0", ""))
	var last int64
	for i := range 6 {
		last = p.create(pod("x", fmt.Sprintf("p%d", i+1), ""))
	}
	a := p.mustAsk(&watchv1.Ask{Resource: "pods", Since: &first, Minimum: last, History: p.history}, watchv1.Outcome_OUTCOME_WHOLE)
	if len(a.entries) != 7 || a.GetRevision() < last {
		t.Errorf("%d entries at %d, want 7 at %d", len(a.entries), a.GetRevision(), last)
	}
}

func TestChunksAndSharing(t *testing.T) {
	t.Parallel()
	p := start(t, respond.Config{}, 0)
	const count = 30
	var last int64
	body := strings.Repeat("x", 60<<10)
	for i := range count {
		last = p.create(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: fmt.Sprintf("c%02d", i)}, Data: map[string]string{"k": body},
		})
	}
	ask := &watchv1.Ask{Resource: "configmaps", Minimum: last, History: p.history}
	answers := map[uint64]bool{}
	for range 3 {
		a := p.mustAsk(ask, watchv1.Outcome_OUTCOME_WHOLE)
		if len(a.entries) != count || a.chunks < 7 || a.largest > 256<<10 {
			t.Errorf("%d entries in %d chunks of up to %d bytes", len(a.entries), a.chunks, a.largest)
		}
		answers[a.GetAnswer()] = true
	}
	if len(answers) != 3 {
		t.Errorf("%d different answer numbers, want 3", len(answers))
	}
	// A cached answer never replaces a newer one.
	last = p.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "new"}})
	ask.Minimum = last
	if a := p.mustAsk(ask, watchv1.Outcome_OUTCOME_WHOLE); len(a.entries) != count+1 || a.GetRevision() < last {
		t.Errorf("%d entries at %d, want %d at %d", len(a.entries), a.GetRevision(), count+1, last)
	}
	for i := range 50 {
		last = p.create(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: fmt.Sprintf("d%02d", i)}, Data: map[string]string{"k": body},
		})
	}
	ask.Minimum = last
	if a := p.mustAsk(ask, watchv1.Outcome_OUTCOME_LIST); a.GetRevision() != last || len(a.entries) != 0 {
		t.Errorf("too large: revision %d with %d entries, want %d", a.GetRevision(), len(a.entries), last)
	}
}

func TestSecretsAreAnswered(t *testing.T) {
	t.Parallel()
	p := start(t, respond.Config{}, 0)
	at := p.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "s"}, Data: map[string][]byte{"k": []byte("v")}})
	a := p.mustAsk(&watchv1.Ask{Resource: "secrets", Minimum: at, History: p.history}, watchv1.Outcome_OUTCOME_WHOLE)
	if len(a.entries) != 1 || len(a.entries[0].GetBody()) == 0 {
		t.Errorf("the secret: %v", a.entries)
	}
}

func TestDigest(t *testing.T) {
	t.Parallel()
	p := start(t, respond.Config{}, 0)
	at := p.create(pod("x", "a", ""))
	right := watchv1.EntryDigest("x", "a", "uid-a", at)
	ask := &watchv1.Ask{Resource: "pods", Since: &at, History: p.history, Digest: &right}
	if a := p.mustAsk(ask, watchv1.Outcome_OUTCOME_CHANGES); len(a.entries) != 0 {
		t.Errorf("the right digest: %s", names(a.entries))
	}
	ask.Digest = new(right + 1)
	if a := p.mustAsk(ask, watchv1.Outcome_OUTCOME_WHOLE); names(a.entries) != "x/a" {
		t.Errorf("the wrong digest: %s", names(a.entries))
	}
	p.create(pod("x", "b", "")) // now the view at the digest's revision is no longer available
	ask.Minimum = at + 1
	p.mustAsk(ask, watchv1.Outcome_OUTCOME_CHANGES)
}

func TestForbidden(t *testing.T) {
	t.Parallel()
	p := start(t, respond.Config{Authorize: func(_ context.Context, _ subject.Client, ask *watchv1.Ask) error {
		if ask.GetResource() == "secrets" {
			return errors.New("secrets is forbidden")
		}
		return nil
	}}, 0)
	if a := p.mustAsk(&watchv1.Ask{Resource: "secrets"}, watchv1.Outcome_OUTCOME_FORBIDDEN); a.GetReason() != "secrets is forbidden" {
		t.Errorf("reason: %q", a.GetReason())
	}
	p.mustAsk(&watchv1.Ask{Resource: "pods"}, watchv1.Outcome_OUTCOME_WHOLE)
}

func TestRepliesOnlyToInboxes(t *testing.T) {
	t.Parallel()
	p := start(t, respond.Config{}, 0)
	p.create(pod("x", "a", ""))
	ask, err := proto.Marshal(&watchv1.Ask{Resource: "pods"})
	if err != nil {
		t.Fatal(err)
	}
	own := p.conn.Client().Ask("", "pods")
	subjects := []string{
		"gb.watch.core.pods.~.x.a", own, "$JS.API.STREAM.CREATE.s", "elsewhere", "_INBOX", "_INBOX.another.x",
		"_INBOX." + p.conn.Client().Inbox,
	}
	got := make(chan bus.Message, 100)
	var subs []*bus.Subscription
	for _, subject := range subjects {
		sub, err := p.conn.Subscribe(t.Context(), subject, func(m bus.Message) { got <- m })
		if err != nil {
			t.Fatal(err)
		}
		subs = append(subs, sub)
	}
	for _, subject := range subjects {
		if err := p.conn.PublishRequest(t.Context(), own, subject, ask); err != nil {
			t.Fatal(err)
		}
	}
	// An ask at another resource's subject is ignored.
	inbox := p.conn.NewInbox()
	sub, err := p.conn.Subscribe(t.Context(), inbox, func(m bus.Message) { got <- m })
	if err != nil {
		t.Fatal(err)
	}
	subs = append(subs, sub)
	if err := p.conn.PublishRequest(t.Context(), p.conn.Client().Ask("", "configmaps"), inbox, ask); err != nil {
		t.Fatal(err)
	}
	// Asks are read in order: once a later one is answered, none of these will be.
	p.mustAsk(&watchv1.Ask{Resource: "pods"}, watchv1.Outcome_OUTCOME_WHOLE)
	if err := p.conn.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, sub := range subs {
		sub.Drain() // Drain still delivers messages that have arrived, however late.
		<-sub.Done()
	}
	close(got)
	for m := range got {
		if m.Subject != own || m.Reply == "" { // the asks themselves are not answers
			t.Errorf("an answer was sent to %s", m.Subject)
		}
	}
}

// setBack is an etcd that lost revisions that were seen before.
type setBack struct{}

func (setBack) RevisionOf(context.Context, *scheme.Kind) (int64, error) { return 1, nil }

func TestFreshAskOfADeadTimeline(t *testing.T) {
	t.Parallel()
	p := start(t, respond.Config{Storage: setBack{}}, 0)
	at := p.create(pod("x", "a", ""))
	p.mustAsk(&watchv1.Ask{Resource: "pods", Minimum: at, History: p.history}, watchv1.Outcome_OUTCOME_WHOLE)
	if a := p.ask(&watchv1.Ask{Resource: "pods", Fresh: true}, 4*time.Second); a != nil {
		t.Errorf("an apiserver of a dead timeline answered %v", a.Chunk)
	}
}
