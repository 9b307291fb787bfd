package publish_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/publish"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

const deadline = 60 * time.Second

var (
	table   = scheme.New()
	podKind = scheme.For[*corev1.Pod](table)
)

// replica is one apiserver's part of the fabric.
type replica struct {
	t     *testing.T
	store *store.Store
	feeds *feed.Feeds
	stop  func()
}

func start(t *testing.T, etcd *etcdtest.Server, conn publish.Bus, openLog func(context.Context) (publish.Log, error), recorder *trace.Recorder) *replica {
	t.Helper()
	return startWith(t, etcd, publish.Config{
		Table: table,
		Parts: []publish.Part{{OpenLog: openLog}}, Bus: conn, Trace: recorder,
	})
}

// startWith starts a publisher with its own feeds and a store that serves all its parts. Without a
// logger it logs nothing.
func startWith(t *testing.T, etcd *etcdtest.Server, cfg publish.Config) *replica {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	s, err := store.Open(t.Context(), store.Config{Servers: etcd.Endpoints(), Table: table, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{t: t, store: s, feeds: feed.New(feed.Config{Store: s, Table: table, Logger: quiet})}
	for i := range cfg.Parts {
		cfg.Parts[i].Storage = s
	}
	cfg.Feeds, cfg.Logger = r.feeds, cmp.Or(cfg.Logger, quiet)
	p := publish.New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{r.feeds.Run, p.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Errorf("running: %v", err)
			}
		})
	}
	r.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

func (r *replica) put(obj scheme.Object) int64 {
	r.t.Helper()
	made, err := r.store.Create(r.t.Context(), table.KindOf(obj), obj)
	if err != nil {
		r.t.Fatal(err)
	}
	return revision(r.t, made)
}

func revision(t *testing.T, obj scheme.Object) int64 {
	t.Helper()
	n, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name)}
}

// listener collects the messages at a subject.
type listener struct {
	t        *testing.T
	messages chan received
}

type received struct {
	subject string
	*watchv1.Message
}

func listen(t *testing.T, conn *bus.Conn, subject string) *listener {
	t.Helper()
	l := &listener{t: t, messages: make(chan received, 10_000)}
	_, err := conn.Subscribe(t.Context(), subject, func(m bus.Message) {
		message := &watchv1.Message{}
		if err := proto.Unmarshal(m.Data, message); err != nil {
			t.Errorf("a message at %s: %v", m.Subject, err)
			return
		}
		l.messages <- received{m.Subject, message}
	})
	if err == nil {
		err = conn.Flush(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// next returns the next message for which want is true.
func (l *listener) next(what string, want func(received) bool) received {
	l.t.Helper()
	timeout := time.After(deadline)
	for {
		select {
		case m := <-l.messages:
			if want(m) {
				return m
			}
		case <-timeout:
			l.t.Fatalf("timed out waiting for %s", what)
		}
	}
}

func isProgress(m received) bool { return m.GetType() == watchv1.Type_TYPE_PROGRESS }

func about(name string, what watchv1.Type) func(received) bool {
	return func(m received) bool { return m.GetName() == name && m.GetType() == what }
}

func TestMessages(t *testing.T) {
	t.Parallel()
	etcd, conn, recorder := etcdtest.Start(t), bustest.New(t), trace.NewRecorder(100)
	all := listen(t, conn, subject.AllWatch())
	r := start(t, etcd, conn, logOn(t.Context(), conn), recorder)
	// Publishing a kind begins with its progress: earlier writes are not in it.
	awaited := map[string]bool{"pods": true, "secrets": true, "configmaps": true}
	all.next("progress of all that is written", func(m received) bool {
		if isProgress(m) {
			delete(awaited, m.GetResource())
		}
		return len(awaited) == 0
	})

	made := r.put(&corev1.Pod{ObjectMeta: meta("default", "a")})
	put := all.next("the pod", about("a", watchv1.Type_TYPE_PUT))
	if put.subject != "gb.watch.core.pods.~.default.a" || put.GetRevision() != made || put.GetUid() != "uid-a" ||
		put.GetKind() != "Pod" || put.GetVersion() != "v1" || put.GetGroup() != "" || put.GetOmitted() || put.GetHistory().GetCreated() == 0 {
		t.Errorf("the pod's message at %s: %v", put.subject, put.Message)
	}
	obj, err := table.DecodeStorage(podKind, put.GetBody())
	if err != nil || obj.GetName() != "a" || obj.GetResourceVersion() != "" {
		t.Errorf("the body: %v, %v", obj, err)
	}
	bound, err := r.store.Update(t.Context(), podKind, "default", "a", func(o scheme.Object) (scheme.Object, error) {
		o.(*corev1.Pod).Spec.NodeName = "n.1"
		return o, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	put = all.next("the bound pod", about("a", watchv1.Type_TYPE_PUT))
	left := all.next("the pod leaving its scope", about("a", watchv1.Type_TYPE_LEFT))
	if put.subject != "gb.watch.core.pods.n~2e1.default.a" || put.GetScope() != "n.1" || put.GetPrevAll() != made || put.GetPrevScope() > made {
		t.Errorf("the bound pod's message at %s: %v", put.subject, put.Message)
	}
	if left.subject != "gb.watch.core.pods.~.default.a" || left.GetRevision() != revision(t, bound) || left.GetPrevScope() != made {
		t.Errorf("the message about leaving at %s: %v", left.subject, left.Message)
	}
	if old, err := table.DecodeStorage(podKind, left.GetBody()); err != nil || old.(*corev1.Pod).Spec.NodeName != "" {
		t.Errorf("the message about leaving shows the new state to the old scope: %v, %v", old, err)
	}
	if _, err := r.store.Delete(t.Context(), podKind, "default", "a", nil); err != nil {
		t.Fatal(err)
	}
	gone := all.next("the deletion", about("a", watchv1.Type_TYPE_DELETED))
	if gone.GetPrevAll() != revision(t, bound) || len(gone.GetBody()) == 0 || gone.GetUid() != "uid-a" {
		t.Errorf("the deletion: %v", gone.Message)
	}

	r.put(&corev1.Secret{ObjectMeta: meta("default", "s"), Data: map[string][]byte{"k": []byte("v")}})
	if m := all.next("the secret", about("s", watchv1.Type_TYPE_PUT)); !m.GetOmitted() || len(m.GetBody()) != 0 {
		t.Errorf("the message contains the secret: %v", m.Message)
	}
	large := &corev1.ConfigMap{ObjectMeta: meta("default", "large"), Data: map[string]string{"k": string(make([]byte, 1100<<10))}}
	r.put(large)
	if m := all.next("the large object", about("large", watchv1.Type_TYPE_PUT)); !m.GetOmitted() || len(m.GetBody()) != 0 {
		t.Errorf("the large object: omitted %v, body of %d", m.GetOmitted(), len(m.GetBody()))
	}

	r.put(&corev1.Pod{ObjectMeta: meta("default", "b")})
	r.put(&corev1.Pod{ObjectMeta: meta("default", "c")})
	at := etcd.DeletePrefix(t, "/registry/pods/")
	for _, name := range []string{"b", "c"} {
		m := all.next("one of two in a revision", about(name, watchv1.Type_TYPE_DELETED))
		if !m.GetOmitted() || m.GetRevision() != at || m.GetPrevAll() >= at {
			t.Errorf("one of two changes in a revision: %v", m.Message)
		}
	}
	last := all.next("progress after the deletions", func(m received) bool {
		return isProgress(m) && m.GetResource() == "pods" && m.GetRevision() >= at
	})
	if last.GetPrevAll() != at || last.subject != subject.Progress("", "pods") {
		t.Errorf("progress at %s: %v; want prev %d", last.subject, last.Message, at)
	}
	hops := recorder.Hops(func(h trace.Hop) bool { return h.Step == trace.Publish && h.Name == "a" })
	if len(hops) != 3 || hops[0].Revision != made {
		t.Errorf("hops: %+v", hops)
	}
}

func TestChainHasNoHoles(t *testing.T) {
	t.Parallel()
	etcd, conn := etcdtest.Start(t), bustest.New(t)
	pods := listen(t, conn, subject.Resource("", "pods"))
	r := start(t, etcd, conn, logOn(t.Context(), conn), nil)
	position := pods.next("progress", isProgress).GetRevision()
	var last int64
	for i := range 60 {
		last = r.put(&corev1.Pod{ObjectMeta: meta("default", fmt.Sprintf("p%d", i))})
	}
	for position < last {
		m := pods.next("the next change", func(m received) bool { return m.GetRevision() > position })
		if m.GetPrevAll() > position {
			t.Fatalf("a hole: at %d came (%d, %d]", position, m.GetPrevAll(), m.GetRevision())
		}
		position = m.GetRevision()
	}
}

// acked waits until the log's cursor has reached a revision.
func acked(pods *listener, at int64) {
	pods.next(fmt.Sprintf("a cursor at %d", at), func(m received) bool { return isProgress(m) && m.GetCursor() >= at })
}

func TestNextPublisherGoesOn(t *testing.T) {
	t.Parallel()
	etcd, conn := etcdtest.Start(t), bustest.New(t)
	pods := listen(t, conn, subject.Resource("", "pods"))
	first := start(t, etcd, conn, logOn(t.Context(), conn), nil)
	pods.next("progress", isProgress)
	seen := first.put(&corev1.Pod{ObjectMeta: meta("default", "seen")})
	acked(pods, seen)
	first.stop()

	writer, err := store.Open(t.Context(), store.Config{Servers: etcd.Endpoints(), Table: table})
	if err != nil {
		t.Fatal(err)
	}
	between, err := writer.Create(t.Context(), podKind, &corev1.Pod{ObjectMeta: meta("default", "between")})
	if err := errors.Join(err, writer.Close()); err != nil {
		t.Fatal(err)
	}
	start(t, etcd, conn, logOn(t.Context(), conn), nil)
	m := pods.next("what happened between two publishers", func(m received) bool { return !isProgress(m) })
	if m.GetName() != "between" || m.GetRevision() != revision(t, between) || m.GetPrevAll() != seen {
		t.Errorf("the next publisher began with %v; want %d after %d", m.Message, revision(t, between), seen)
	}
}

func TestFailOver(t *testing.T) {
	t.Parallel()
	etcd, conn := etcdtest.Start(t), bustest.New(t)
	pods := listen(t, conn, subject.Resource("", "pods"))
	leader := start(t, etcd, conn, logOn(t.Context(), conn), nil)
	pods.next("progress", isProgress)
	standby := start(t, etcd, conn, logOn(t.Context(), conn), nil)
	position := leader.put(&corev1.Pod{ObjectMeta: meta("default", "before")})
	pods.next("the change before", about("before", watchv1.Type_TYPE_PUT))
	leader.stop()
	standby.put(&corev1.Pod{ObjectMeta: meta("default", "after")})
	m := pods.next("the change after", about("after", watchv1.Type_TYPE_PUT))
	if m.GetPrevAll() > position {
		t.Errorf("a hole at fail-over: at %d came (%d, %d]", position, m.GetPrevAll(), m.GetRevision())
	}
}

func TestWithoutLog(t *testing.T) {
	t.Parallel()
	etcd, conn := etcdtest.Start(t), bustest.New(t)
	pods := listen(t, conn, subject.Resource("", "pods"))
	failing := func(context.Context) (publish.Log, error) { return nil, errors.New("JetStream is down") }
	r := start(t, etcd, conn, failing, nil)
	pods.next("progress", isProgress)
	r.put(&corev1.Pod{ObjectMeta: meta("default", "a")})
	if m := pods.next("the change", about("a", watchv1.Type_TYPE_PUT)); len(m.GetBody()) == 0 {
		t.Errorf("the change without a log: %v", m.Message)
	}
}

func TestLogLateAndLost(t *testing.T) {
	t.Parallel()
	etcd, conn := etcdtest.Start(t), bustest.New(t)
	pods := listen(t, conn, subject.Resource("", "pods"))
	g := &gate{}
	r := start(t, etcd, conn, func(ctx context.Context) (publish.Log, error) {
		log, err := logOn(t.Context(), conn)(ctx)
		return gatedLog{log, g}, err
	}, nil)
	pods.next("progress", isProgress)
	g.set(true)
	first := r.put(&corev1.Pod{ObjectMeta: meta("default", "a")})
	pods.next("the change without its log", about("a", watchv1.Type_TYPE_PUT))
	held := pods.next("progress without acknowledgement", func(m received) bool { return isProgress(m) && m.GetRevision() >= first })
	if held.GetCursor() >= first {
		t.Errorf("the cursor is at %d although the log lacks %d", held.GetCursor(), first)
	}
	g.set(false)
	acked(pods, first)
}

func TestNATSRestart(t *testing.T) {
	t.Parallel()
	etcd, server := etcdtest.Start(t), bustest.NewServer(t)
	conn := server.Connect()
	pods := listen(t, conn, subject.Resource("", "pods"))
	r := start(t, etcd, conn, logOn(t.Context(), conn), nil)
	pods.next("progress", isProgress)
	server.Stop()
	r.put(&corev1.Pod{ObjectMeta: meta("default", "while")})
	server.Start()
	at := r.put(&corev1.Pod{ObjectMeta: meta("default", "after")})
	pods.next("progress after the restart", func(m received) bool { return isProgress(m) && m.GetRevision() >= at })
	acked(pods, at)
}

// TestParts checks that each part of a publisher has its own election, even in one etcd.
func TestParts(t *testing.T) {
	t.Parallel()
	conn := bustest.New(t)
	mapKind := scheme.For[*corev1.ConfigMap](table)
	startWith(t, etcdtest.Start(t), publish.Config{Table: table, Bus: conn, Parts: []publish.Part{
		{Holds: only(podKind)}, {Name: "maps", Holds: only(mapKind)},
	}})
	for _, kind := range []*scheme.Kind{podKind, mapKind} {
		l := listen(t, conn, subject.Progress(kind.Group, kind.Resource))
		l.next("progress of "+kind.Resource, func(m received) bool { return m.GetType() == watchv1.Type_TYPE_PROGRESS })
	}
}

// only returns a function that reports whether a kind is the given one.
func only(kind *scheme.Kind) func(*scheme.Kind) bool {
	return func(other *scheme.Kind) bool { return other == kind }
}
