package fabricsource

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

const patience = time.Minute

// plane is an apiserver's end of the fabric, over a real NATS server: a responder and a publisher,
// with a log in memory.
type plane struct {
	t     *testing.T
	r     reader
	conn  *bus.Conn
	mu    sync.Mutex
	at    int64
	pods  map[string]*corev1.Pod
	log   []*watchv1.Message
	asks  []*watchv1.Ask
	reply func(m bus.Message, ask *watchv1.Ask) bool // true: it has answered
}

// newPlane starts a plane that holds pods.
func newPlane(t *testing.T, server *bustest.Server, pods ...*corev1.Pod) *plane {
	t.Helper()
	p := &plane{t: t, r: readerOf(informer.View{}), conn: server.Connect(), at: 100, pods: map[string]*corev1.Pod{}}
	for _, pod := range pods {
		p.pods[pod.Namespace+"/"+pod.Name] = pod
	}
	sub, err := p.conn.QueueSubscribe(t.Context(), subject.Asks("", "pods"), "apiservers", p.answer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sub.Unsubscribe()
		<-sub.Done()
	})
	if err := p.conn.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

// put writes a pod, and publishes the message unless lost.
func (p *plane) put(namespace, name, uid string, lost bool) {
	p.write(namespace, name, uid, false, lost)
}

func (p *plane) drop(namespace, name, uid string, lost bool) {
	p.write(namespace, name, uid, true, lost)
}

func (p *plane) write(namespace, name, uid string, deleted, lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &watchv1.Message{
		History: h1.Wire(), Type: watchv1.Type_TYPE_PUT, Version: "v1", Kind: "Pod", Resource: "pods",
		Namespace: namespace, Name: name, Uid: uid, Scope: scheme.Unscoped,
		PrevAll: p.at, PrevNamespace: p.at, PrevScope: p.at,
		Encoding: watchv1.Encoding_ENCODING_KUBERNETES_PROTOBUF, Body: body(p.t, p.r, namespace, name, uid),
	}
	p.at++
	m.Revision = p.at
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid), ResourceVersion: strconv.FormatInt(p.at, 10)}}
	p.pods[namespace+"/"+name] = pod
	if deleted {
		m.Type = watchv1.Type_TYPE_DELETED
		delete(p.pods, namespace+"/"+name)
	}
	p.log = append(p.log, m)
	if !lost {
		p.publish(subject.Watch("", "pods", scheme.Unscoped, namespace, name), m)
	}
}

func (p *plane) publish(subject string, m proto.Message) {
	data, err := proto.Marshal(m)
	if err == nil {
		err = p.conn.Publish(p.t.Context(), subject, data)
	}
	if err != nil {
		p.t.Logf("publishing: %v", err)
	}
}

func (p *plane) progress() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.publish(subject.Progress("", "pods"), &watchv1.Message{
		History: h1.Wire(), Type: watchv1.Type_TYPE_PROGRESS, Resource: "pods", PrevAll: p.at, Revision: p.at,
	})
}

func (p *plane) answer(m bus.Message) {
	ask := &watchv1.Ask{}
	if err := proto.Unmarshal(m.Data, ask); err != nil || !subject.IsInbox(m.Reply) {
		p.t.Errorf("an ask cannot be read: %v, reply to %q", err, m.Reply)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asks = append(p.asks, ask)
	if p.reply != nil && p.reply(m, ask) {
		return
	}
	for _, chunk := range p.chunks(ask, 2) {
		p.publish(m.Reply, chunk)
	}
}

// chunks returns a true answer, with size objects per chunk.
func (p *plane) chunks(ask *watchv1.Ask, size int) []*watchv1.Chunk {
	outcome, prev := watchv1.Outcome_OUTCOME_WHOLE, int64(0)
	var entries []*watchv1.Entry
	if ask.Since != nil && ask.GetHistory().GetCreated() == h1.Created {
		outcome, prev = watchv1.Outcome_OUTCOME_CHANGES, ask.GetSince()
		for _, m := range p.log {
			if m.GetRevision() > prev && (ask.GetNamespace() == "" || ask.GetNamespace() == m.GetNamespace()) {
				entries = append(entries, &watchv1.Entry{
					Revision: m.GetRevision(), Deleted: m.GetType() == watchv1.Type_TYPE_DELETED,
					Namespace: m.GetNamespace(), Name: m.GetName(), Uid: m.GetUid(), Encoding: m.GetEncoding(), Body: m.GetBody(),
				})
			}
		}
	} else {
		for _, key := range slices.Sorted(maps.Keys(p.pods)) {
			pod := p.pods[key]
			if ask.GetNamespace() == "" || ask.GetNamespace() == pod.Namespace {
				entries = append(entries, &watchv1.Entry{
					Revision: revisionOf(pod), Namespace: pod.Namespace, Name: pod.Name, Uid: string(pod.UID),
					Encoding: watchv1.Encoding_ENCODING_KUBERNETES_PROTOBUF, Body: body(p.t, p.r, pod.Namespace, pod.Name, string(pod.UID)),
				})
			}
		}
	}
	var chunks []*watchv1.Chunk
	for part := range slices.Chunk(append(entries, nil), size) {
		part = slices.DeleteFunc(part, func(e *watchv1.Entry) bool { return e == nil })
		chunks = append(chunks, &watchv1.Chunk{
			Answer: uint64(len(p.asks)), Index: uint32(len(chunks)), Outcome: outcome,
			History: h1.Wire(), Prev: prev, Revision: p.at, Entries: part,
		})
	}
	chunks[len(chunks)-1].Count = uint32(len(chunks))
	return chunks
}

func (p *plane) askCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asks)
}

// store is a sink that keeps the content.
type store struct {
	informer.SinkDefaults
	mu       sync.Mutex
	pods     map[string]string // namespace/name to uid@revision
	revision int64
	replaced int
	moved    chan struct{}
}

func newStore() *store { return &store{pods: map[string]string{}, moved: make(chan struct{}, 1)} }

func (s *store) Replace(at fabric.Position, objects []informer.Object) {
	s.change(at.Revision, func() {
		s.replaced++
		s.pods = map[string]string{}
		for _, obj := range objects {
			s.pods[obj.GetNamespace()+"/"+obj.GetName()] = fmt.Sprintf("%s@%s", obj.GetUID(), obj.GetResourceVersion())
		}
	})
}

func (s *store) Apply(changes []informer.Change, revision int64) {
	s.change(revision, func() {
		for _, c := range changes {
			key := c.Namespace + "/" + c.Name
			if c.Deleted {
				delete(s.pods, key)
			} else {
				s.pods[key] = fmt.Sprintf("%s@%s", c.UID, c.Object.GetResourceVersion())
			}
		}
	})
}

func (s *store) change(revision int64, do func()) {
	s.mu.Lock()
	do()
	s.revision = revision
	s.mu.Unlock()
	select {
	case s.moved <- struct{}{}:
	default:
	}
}

// await waits until the store holds what etcd holds, at its revision or later.
func (s *store) await(t *testing.T, p *plane, keep func(namespace string) bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		p.mu.Lock()
		want, at := map[string]string{}, p.at
		for key, pod := range p.pods {
			if keep == nil || keep(pod.Namespace) {
				want[key] = fmt.Sprintf("%s@%s", pod.UID, pod.ResourceVersion)
			}
		}
		p.mu.Unlock()
		s.mu.Lock()
		got, revision := maps.Clone(s.pods), s.revision
		s.mu.Unlock()
		if revision >= at && maps.Equal(got, want) {
			return
		}
		select {
		case <-s.moved:
		case <-deadline:
			t.Fatalf("at %d the store holds %v; etcd holds %v at %d", revision, got, want, at)
		}
	}
}

func follow(t *testing.T, server *bustest.Server, api client.Interface, view informer.View) (*store, informer.Follower) {
	t.Helper()
	if api == nil {
		api = fake.New(scheme.New())
	}
	table := api.Table()
	s := newStore()
	source := New(Config{Conn: server.Connect(), Table: table, Client: api})
	f := source.Follower(scheme.For[*corev1.Pod](table), view, s)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("following: %v", err)
			}
		case <-time.After(patience):
			t.Error("the follower does not end")
		}
	})
	return s, f
}

func TestFollower(t *testing.T) {
	server := bustest.NewServer(t)
	p := newPlane(t, server)
	for i := range 5 {
		p.put("a", fmt.Sprint("p", i), fmt.Sprint("u", i), true)
	}
	p.put("b", "other", "u9", true)
	whole, _ := follow(t, server, nil, informer.View{})
	narrow, _ := follow(t, server, nil, informer.View{Namespace: "a"})
	inA := func(namespace string) bool { return namespace == "a" }
	whole.await(t, p, nil)
	narrow.await(t, p, inA)
	for i := range 40 {
		lost := i%7 == 3
		switch i % 4 {
		case 3:
			p.drop("a", "p1", "u1", lost)
		default:
			p.put([]string{"a", "a", "b"}[i%3], "p1", "u1", lost)
		}
	}
	p.put("a", "last", "u", false)
	whole.await(t, p, nil)
	narrow.await(t, p, inA)
	whole.mu.Lock()
	defer whole.mu.Unlock()
	if whole.replaced != 1 {
		t.Errorf("the whole view was read %d times, want 1: a gap needs only the missing changes", whole.replaced)
	}
}

func TestLastMessageLostThenProgress(t *testing.T) {
	server := bustest.NewServer(t)
	p := newPlane(t, server)
	s, _ := follow(t, server, nil, informer.View{})
	s.await(t, p, nil)
	p.put("a", "p", "u", true)
	p.progress()
	s.await(t, p, nil)
}

func TestRequireAsks(t *testing.T) {
	server := bustest.NewServer(t)
	p := newPlane(t, server)
	s, f := follow(t, server, nil, informer.View{})
	s.await(t, p, nil)
	p.put("a", "p", "u", true)
	p.mu.Lock()
	at := p.at
	p.mu.Unlock()
	f.Require(at)
	s.await(t, p, nil)
}

func TestServerRestart(t *testing.T) {
	server := bustest.NewServer(t)
	p := newPlane(t, server)
	p.put("a", "p1", "u1", true)
	s, _ := follow(t, server, nil, informer.View{})
	s.await(t, p, nil)
	server.Stop()
	p.put("a", "p2", "u2", true)
	p.drop("a", "p1", "u1", true)
	server.Start()
	s.await(t, p, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replaced != 1 {
		t.Errorf("the whole view was read %d times, want 1: a reconnect needs only the missing changes", s.replaced)
	}
}

func TestHostileAnswers(t *testing.T) {
	for name, reply := range map[string]func(p *plane, m bus.Message, ask *watchv1.Ask) bool{
		"the responder dies between chunks": func(p *plane, m bus.Message, ask *watchv1.Ask) bool {
			chunks := p.chunks(ask, 1)
			for _, chunk := range chunks[:len(chunks)-1] {
				p.publish(m.Reply, chunk)
			}
			// The rest would never come; a faulty chunk ends the ask.
			return p.conn.Publish(p.t.Context(), m.Reply, []byte("\xff")) == nil
		},
		"two responders' chunks": func(p *plane, m bus.Message, ask *watchv1.Ask) bool {
			for _, answer := range []uint64{1 << 40, 1 << 41} {
				for _, chunk := range p.chunks(ask, 1) {
					chunk.Answer = answer
					if chunk.GetIndex() == 0 == (answer == 1<<40) {
						p.publish(m.Reply, chunk)
					}
				}
			}
			return p.conn.Publish(p.t.Context(), m.Reply, []byte("\xff")) == nil
		},
		"not yet": func(p *plane, m bus.Message, _ *watchv1.Ask) bool {
			p.publish(m.Reply, &watchv1.Chunk{Answer: 1, Count: 1, Outcome: watchv1.Outcome_OUTCOME_NOT_YET})
			return true
		},
		"no outcome": func(p *plane, m bus.Message, _ *watchv1.Ask) bool {
			p.publish(m.Reply, &watchv1.Chunk{Answer: 1, Count: 1})
			return true
		},
		"an object that cannot be read": func(p *plane, m bus.Message, ask *watchv1.Ask) bool {
			for _, chunk := range p.chunks(ask, 100) {
				for _, e := range chunk.GetEntries() {
					e.Body = []byte("rubbish")
				}
				p.publish(m.Reply, chunk)
			}
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := bustest.NewServer(t)
			p := newPlane(t, server)
			for i := range 4 {
				p.put("a", fmt.Sprint("p", i), fmt.Sprint("u", i), true)
			}
			p.reply = func(m bus.Message, ask *watchv1.Ask) bool { return len(p.asks) <= 2 && reply(p, m, ask) }
			s, _ := follow(t, server, nil, informer.View{})
			s.await(t, p, nil)
			if n := p.askCount(); n < 3 {
				t.Errorf("the view was complete after %d asks, want 3 or more", n)
			}
		})
	}
}

// apiOf returns a fake apiserver with the pods of the plane, at the same revisions or later.
func apiOf(t *testing.T, table *scheme.Table, names ...string) *fake.Client {
	t.Helper()
	api := fake.New(table)
	for _, name := range names {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
		if _, err := client.Of[*corev1.Pod](api).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return api
}

func TestLargeViewIsListed(t *testing.T) {
	server := bustest.NewServer(t)
	p := newPlane(t, server)
	p.reply = func(m bus.Message, ask *watchv1.Ask) bool {
		if ask.Since != nil {
			return false
		}
		p.publish(m.Reply, &watchv1.Chunk{Answer: 1, Count: 1, Outcome: watchv1.Outcome_OUTCOME_LIST, History: h1.Wire()})
		return true
	}
	s, f := follow(t, server, apiOf(t, scheme.New(), "x", "y"), informer.View{Namespace: "a"})
	deadline := time.After(patience)
	for listed := false; !listed; {
		select {
		case <-s.moved:
			s.mu.Lock()
			listed = len(s.pods) == 2 && s.replaced == 1
			s.mu.Unlock()
		case <-deadline:
			t.Fatal("the view was never listed")
		}
	}
	p.put("a", "z", "u", true)
	p.mu.Lock()
	at := p.at
	p.mu.Unlock()
	f.Require(at)
	for found := false; !found; {
		select {
		case <-s.moved:
			s.mu.Lock()
			_, found = s.pods["a/z"]
			s.mu.Unlock()
		case <-deadline:
			t.Fatal("the change after the list never came")
		}
	}
}

func TestForbiddenFallsBackToHTTP(t *testing.T) {
	server := bustest.NewServer(t)
	p := newPlane(t, server)
	p.reply = func(m bus.Message, _ *watchv1.Ask) bool {
		p.publish(m.Reply, &watchv1.Chunk{Answer: 1, Count: 1, Outcome: watchv1.Outcome_OUTCOME_FORBIDDEN, Reason: "no"})
		return true
	}
	api := apiOf(t, scheme.New(), "x")
	s, _ := follow(t, server, api, informer.View{})
	wait := func(want int) {
		t.Helper()
		deadline := time.After(patience)
		for {
			s.mu.Lock()
			n := len(s.pods)
			s.mu.Unlock()
			if n == want {
				return
			}
			select {
			case <-s.moved:
			case <-deadline:
				t.Fatalf("%d pods came over HTTP, want %d", n, want)
			}
		}
	}
	wait(1)
	pods := client.Of[*corev1.Pod](api)
	if _, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "y"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wait(2)
	grace := int64(0)
	if err := pods.Delete(t.Context(), "a", "x", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	wait(1)
}

// TestBusAwayFallsBackToHTTPAndReturns checks that HTTP takes over while the bus is away, and hands
// back when the bus returns. Nothing comes twice or goes back.
func TestBusAwayFallsBackToHTTPAndReturns(t *testing.T) {
	server := bustest.NewServer(t)
	p := newPlane(t, server)
	api := apiOf(t, scheme.New())
	s := newStore()
	source := New(Config{Conn: server.Connect(), Table: api.Table(), Client: api})
	f := source.Follower(scheme.For[*corev1.Pod](api.Table()), informer.View{}, s).(*follower)
	f.machine.limit, f.machine.calm = 100*time.Millisecond, 50*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	s.await(t, p, nil)
	server.Stop()
	// The plane's etcd is at 100. The fake apiserver is moved past that, and then differs.
	pods := client.Of[*corev1.Pod](api)
	deadline := time.Now().Add(patience)
	for n := 0; ; n++ {
		if time.Now().After(deadline) {
			t.Fatal("nothing came over HTTP")
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint("x", n)}}
		if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-s.moved:
		case <-time.After(time.Millisecond):
		}
		s.mu.Lock()
		there := len(s.pods) > 0 && s.revision > 100
		s.mu.Unlock()
		if there {
			break
		}
	}
	// The bus comes back behind what HTTP has delivered, and must not undo it.
	s.mu.Lock()
	shown := s.revision
	s.mu.Unlock()
	server.Start()
	for range 3 {
		p.put("a", "late", "u", false)
	}
	f.mu.Lock()
	if f.machine.at.Revision < shown {
		t.Errorf("went back from %d to %d", shown, f.machine.at.Revision)
	}
	f.mu.Unlock()
	// Then the view advances.
	p.mu.Lock()
	p.at = shown + 1000
	p.mu.Unlock()
	deadline = time.Now().Add(patience)
	for away := true; away; {
		p.put("a", "new", "u", false)
		f.mu.Lock()
		away = f.stopHTTP != nil || f.machine.at.Revision <= shown
		f.mu.Unlock()
		// Slow enough that an answer can hold everything written before the ask.
		<-time.After(20 * time.Millisecond)
		if time.Now().After(deadline) {
			t.Fatal("HTTP was never left")
		}
	}
}

func TestViewThatCannotBe(t *testing.T) {
	server := bustest.NewServer(t)
	table := scheme.New()
	source := New(Config{Conn: server.Connect(), Table: table, Client: fake.New(table)})
	for name, f := range map[string]informer.Follower{
		"namespace of nodes": source.Follower(scheme.For[*corev1.Node](table), informer.View{Namespace: "a"}, newStore()),
		"name of a pod":      source.Follower(scheme.For[*corev1.Pod](table), informer.View{Name: "p"}, newStore()),
		"scope of services":  source.Follower(scheme.For[*corev1.Service](table), informer.View{Scope: "n1"}, newStore()),
	} {
		if err := f.Run(t.Context()); err == nil {
			t.Errorf("%s: followed", name)
		}
	}
}
