package fabricsource

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// unreadableAnswers makes a plane answer every ask with a view in which a/x cannot be read.
func unreadableAnswers(t *testing.T, p *plane) {
	t.Helper()
	good := body(t, p.r, "a", "y", "u2")
	p.reply = func(m bus.Message, _ *watchv1.Ask) bool {
		p.publish(m.Reply, &watchv1.Chunk{
			Answer: uint64(len(p.asks)), Count: 1, Outcome: watchv1.Outcome_OUTCOME_WHOLE, History: h1.Wire(), Revision: 2,
			Entries: []*watchv1.Entry{
				{Revision: 1, Namespace: "a", Name: "x", Uid: "u1", Encoding: 1, Body: []byte("k8s\x00garbage")},
				{Revision: 2, Namespace: "a", Name: "y", Uid: "u2", Encoding: 1, Body: good},
			},
		})
		return true
	}
}

func (s *store) awaitPods(t *testing.T, what string, is func(pods map[string]string) bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		there := is(s.pods)
		s.mu.Unlock()
		if there {
			return
		}
		select {
		case <-s.moved:
		case <-deadline:
			t.Fatalf("%s never came", what)
		}
	}
}

// TestAnUnreadableObjectIsReadOverHTTP checks that an object that no apiserver can send readably
// over the bus is read over HTTP.
func TestAnUnreadableObjectIsReadOverHTTP(t *testing.T) {
	server := bustest.NewServer(t)
	unreadableAnswers(t, newPlane(t, server))
	api := apiOf(t, scheme.New(), "x", "y")
	s, _ := follow(t, server, api, informer.View{})
	s.awaitPods(t, "the view", func(pods map[string]string) bool { return len(pods) == 2 })
	for name, seen := range s.pods {
		if seen[:1] == "u" {
			t.Errorf("%s is %s, which is not from HTTP", name, seen)
		}
	}
	for _, call := range api.Calls() {
		if call.Verb == "list" {
			return
		}
	}
	t.Error("nothing was listed")
}

// TestAnObjectThatNobodyCanReadHidesNoOther checks that if HTTP cannot return the object either,
// the rest is shown, and the object exists without its content. Later the view is read again.
func TestAnObjectThatNobodyCanReadHidesNoOther(t *testing.T) {
	server := bustest.NewServer(t)
	p := newPlane(t, server)
	unreadableAnswers(t, p)
	api := fake.New(scheme.New())
	api.Fail(func(client.Call) error { return errors.New("decoding: no") })
	s, f := follow(t, server, api, informer.View{})
	s.awaitPods(t, "the view", func(pods map[string]string) bool {
		return len(pods) == 2 && pods["a/x"] == "u1@1" && pods["a/y"] == "u2@2"
	})
	follower := f.(*follower)
	var planned time.Time
	for deadline := time.Now().Add(patience); planned.IsZero(); {
		follower.mu.Lock()
		planned = follower.machine.repairAt
		follower.mu.Unlock()
		if time.Now().After(deadline) {
			t.Fatal("no second attempt is planned")
		}
		<-time.After(time.Millisecond)
	}
	p.mu.Lock()
	p.reply = nil
	p.mu.Unlock()
	p.put("a", "x", "u1", true)
	p.put("a", "y", "u2", true)
	follower.do(func(now time.Time) { follower.machine.repairAt = now })
	s.await(t, p, nil)
}

// scripted is a source that exposes its sink.
type scripted struct{ sink chan informer.Sink }

func (s scripted) Follower(_ *scheme.Kind, _ informer.View, sink informer.Sink) informer.Follower {
	s.sink <- sink
	return waiting{}
}

type waiting struct{ informer.FollowerDefaults }

func (waiting) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// TestAnInformerKeepsTheLastReadableState checks that a placeholder for an unreadable object
// neither deletes nor changes an informer's state of it.
func TestAnInformerKeepsTheLastReadableState(t *testing.T) {
	r := readerOf(informer.View{})
	source := scripted{make(chan informer.Sink, 1)}
	pods := informer.NewSharedInformer[*corev1.Pod](informer.Config{Source: source, Table: r.table}, informer.View{})
	deleted := make(chan string, 10)
	_, err := pods.AddEventHandler(informer.ResourceEventHandlerFuncs[*corev1.Pod]{
		DeleteFunc: func(gone informer.DeletedObject[*corev1.Pod]) { deleted <- gone.Key },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- pods.Run(ctx) }()
	sink := <-source.sink
	full := func(name string) informer.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name), ResourceVersion: "1"}, Spec: corev1.PodSpec{NodeName: "n"}}
	}
	stands := r.placeholder(informer.Change{Revision: 2, Namespace: "a", Name: "x", UID: "x"})
	sink.Replace(fabric.Position{Revision: 1}, []informer.Object{full("x"), full("y"), full("z")})
	sink.Apply([]informer.Change{{Revision: 2, Namespace: "a", Name: "x", UID: "x", Object: stands}}, 2)
	sink.Replace(fabric.Position{Revision: 3}, []informer.Object{stands, full("y")})
	if err := pods.WaitForRevision(ctx, 3); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a/x", "a/y"} {
		if pod, found := pods.Indexer().GetByKey(key); !found || pod.Spec.NodeName != "n" {
			t.Errorf("the informer holds %v of %s", pod, key)
		}
	}
	select {
	case key := <-deleted:
		if key != "a/z" {
			t.Errorf("%s was deleted, want a/z", key)
		}
	case <-time.After(patience):
		t.Error("the handler never got the deletion of a/z")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(deleted) > 0 {
		t.Errorf("%s was deleted too", <-deleted)
	}
}

// TestStartWithoutNATS checks that a service that starts without NATS follows over HTTP from the
// start, and leaves HTTP when NATS is available.
func TestStartWithoutNATS(t *testing.T) {
	server := bustest.NewServer(t)
	server.Stop()
	conn, err := bus.Dial(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	api := apiOf(t, scheme.New(), "x")
	s := newStore()
	f := New(Config{Conn: conn, Table: api.Table(), Client: api}).Follower(scheme.For[*corev1.Pod](api.Table()), informer.View{}, s).(*follower)
	// HTTP takes over without waiting for an answer.
	f.machine.limit, f.machine.calm = time.Hour, 50*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	s.awaitPods(t, "the view", func(pods map[string]string) bool { return len(pods) == 1 })
	if via := f.Via(); via != watcher.ViaHTTP {
		t.Errorf("without NATS, Via is %q", via)
	}
	server.Start()
	// HTTP serves the same etcd: its content from before any history was known belongs to that
	// history.
	x, err := client.Of[*corev1.Pod](api).Get(t.Context(), "a", "x", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := newPlane(t, server, x)
	p.put("a", "new", "u", false)
	s.await(t, p, nil)
	for deadline := time.Now().Add(patience); ; {
		if f.Via() == watcher.ViaNATS {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("HTTP was never left")
		}
		<-time.After(time.Millisecond)
	}
}
