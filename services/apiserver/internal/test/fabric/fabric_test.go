// Package fabric_test tests the whole watch fabric: a real etcd, a real NATS server, the feeds,
// publishers and responders of two apiservers, and the informers that follow them.
package fabric_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/fabricsource"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/publish"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/respond"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 90 * time.Second

var (
	table   = scheme.New()
	podKind = scheme.For[*corev1.Pod](table)
	quiet   = slog.New(slog.DiscardHandler)
)

// replica starts one apiserver's part of the fabric.
func replica(t *testing.T, etcd *etcdtest.Server, conn *bus.Conn) (s *store.Store, stop func()) {
	t.Helper()
	return replicaThat(t, etcd, conn, true)
}

// replicaThat is replica with the choice whether it answers asks.
func replicaThat(t *testing.T, etcd *etcdtest.Server, conn *bus.Conn, answers bool) (s *store.Store, stop func()) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Servers: etcd.Endpoints(), Table: table, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	feeds := feed.New(feed.Config{Store: s, Table: table, Logger: quiet})
	publisher := publish.New(publish.Config{
		Table: table,
		Feeds: feeds, Bus: conn, Peers: conn, Logger: quiet,
		Parts: []publish.Part{{
			Storage: s,
			OpenLog: publish.JetStream(conn, "WATCH", func() []string { return []string{subject.AllWatch()} }, time.Hour, 0, 1),
		}},
	})
	parts := []func(context.Context) error{feeds.Run, publisher.Run}
	if answers {
		parts = append(parts, respond.New(respond.Config{Storage: s, Feeds: feeds, Table: table, Bus: conn, Logger: quiet}).Run)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, run := range parts {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Errorf("running an apiserver: %v", err)
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return s, stop
}

// view is an informer with its own connection, and what its handler was told.
type view struct {
	name     string
	keep     func(*corev1.Pod) bool
	informer informer.SharedInformer[*corev1.Pod]

	mu   sync.Mutex
	told map[string]string
}

func newView(t *testing.T, server *bustest.Server, name string, v informer.View, keep func(*corev1.Pod) bool) *view {
	t.Helper()
	return newCountedView(t, server, name, v, keep, nil)
}

// newCountedView is newView with metrics.
func newCountedView(t *testing.T, server *bustest.Server, name string, v informer.View, keep func(*corev1.Pod) bool, registry prometheus.Registerer) *view {
	t.Helper()
	source := fabricsource.New(fabricsource.Config{Conn: server.Connect(), Table: table, Client: fake.New(table), Logger: quiet, Registerer: registry})
	factory := informer.NewFactory(informer.FactoryConfig{Source: source, Table: table, Logger: quiet, Service: "test"})
	w := &view{name: name, keep: keep, informer: informer.ForView[*corev1.Pod](factory, v), told: map[string]string{}}
	known := func(pod *corev1.Pod) (key, value string) {
		return pod.Namespace + "/" + pod.Name, string(pod.UID) + "@" + pod.ResourceVersion
	}
	_, err := w.informer.AddEventHandler(informer.ResourceEventHandlerFuncs[*corev1.Pod]{
		AddFunc: func(pod *corev1.Pod, _ bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			key, value := known(pod)
			if old, there := w.told[key]; there {
				t.Errorf("%s: %s was added but already is %s", name, key, old)
			}
			w.told[key] = value
		},
		UpdateFunc: func(old, pod *corev1.Pod) {
			w.mu.Lock()
			defer w.mu.Unlock()
			key, value := known(pod)
			if _, before := known(old); w.told[key] != before || old.UID != pod.UID {
				t.Errorf("%s: %s was updated from %s to %s but was %s", name, key, before, value, w.told[key])
			}
			w.told[key] = value
		},
		DeleteFunc: func(gone informer.DeletedObject[*corev1.Pod]) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if _, there := w.told[gone.Key]; !there {
				t.Errorf("%s: %s was deleted but did not exist", name, gone.Key)
			}
			delete(w.told, gone.Key)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- factory.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	return w
}

// await waits until the informer and its handler match etcd.
func (w *view) await(t *testing.T, s *store.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	page, err := s.List(ctx, podKind, store.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, obj := range page.Objects {
		if pod := obj.(*corev1.Pod); w.keep(pod) {
			want[pod.Namespace+"/"+pod.Name] = string(pod.UID) + "@" + pod.ResourceVersion
		}
	}
	if err := w.informer.WaitForRevision(ctx, page.Revision); err != nil {
		t.Fatalf("%s: waiting for revision %d at %d: %v", w.name, page.Revision, w.informer.Revision(), err)
	}
	got := map[string]string{}
	for _, pod := range w.informer.Indexer().List() {
		got[pod.Namespace+"/"+pod.Name] = string(pod.UID) + "@" + pod.ResourceVersion
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s: the informer holds\n%v, etcd holds\n%v", w.name, got, want)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		w.mu.Lock()
		equal := maps.Equal(w.told, want)
		w.mu.Unlock()
		if equal {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s: the handler knows %v, etcd holds %v", w.name, w.told, want)
		}
	}
}

// churn writes n changes: creations, bindings, updates and deletions.
func churn(t *testing.T, s *store.Store, random *rand.Rand, n int) {
	t.Helper()
	for i := range n {
		namespace, name := []string{"a", "b"}[random.IntN(2)], fmt.Sprint("p", random.IntN(8))
		_, err := s.Get(t.Context(), podKind, namespace, name)
		switch {
		case err != nil:
			_, err = s.Create(t.Context(), podKind, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name, UID: types.UID(fmt.Sprintf("%d-%d", i, random.Uint32())),
			}})
		case random.IntN(3) == 0:
			_, err = s.Delete(t.Context(), podKind, namespace, name, nil)
		default:
			_, err = s.Update(t.Context(), podKind, namespace, name, func(current scheme.Object) (scheme.Object, error) {
				pod := current.DeepCopyObject().(*corev1.Pod)
				pod.Spec.NodeName = []string{"", "n1", "n2"}[random.IntN(3)]
				pod.Labels = map[string]string{"n": fmt.Sprint(random.Uint32())}
				return pod, nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestFabric(t *testing.T) {
	etcd, server := etcdtest.Start(t), bustest.NewServer(t)
	random := rand.New(rand.NewPCG(1, 2))
	direct, err := store.Open(t.Context(), store.Config{Servers: etcd.Endpoints(), Table: table, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := direct.Close(); err != nil {
			t.Error(err)
		}
	})
	churn(t, direct, random, 30)
	_, stopFirst := replica(t, etcd, server.Connect())
	replica(t, etcd, server.Connect())
	views := []*view{
		newView(t, server, "whole", informer.View{}, func(*corev1.Pod) bool { return true }),
		newView(t, server, "namespace a", informer.View{Namespace: "a"}, func(p *corev1.Pod) bool { return p.Namespace == "a" }),
		newView(t, server, "node n1", informer.View{Scope: "n1"}, func(p *corev1.Pod) bool { return p.Spec.NodeName == "n1" }),
		newView(t, server, "unbound", informer.View{Scope: scheme.Unscoped}, func(p *corev1.Pod) bool { return p.Spec.NodeName == "" }),
		newView(t, server, "b/p1", informer.View{Namespace: "b", Name: "p1"}, func(p *corev1.Pod) bool { return p.Namespace == "b" && p.Name == "p1" }),
	}
	check := func(when string) {
		t.Helper()
		for _, w := range views {
			w.await(t, direct)
		}
		if t.Failed() {
			t.Fatal(when)
		}
	}
	check("at first")
	churn(t, direct, random, 200)
	check("after changes")
	if n := len(etcd.Values(t, "/registry/pods/a/p")); n < 2 {
		t.Fatalf("%d pods are too few for a deletion of several at once", n)
	}
	etcd.DeletePrefix(t, "/registry/pods/a/p")
	check("after many deletions in one revision")
	churn(t, direct, random, 50)
	stopFirst()
	churn(t, direct, random, 50)
	check("after an apiserver ended")
	server.Stop()
	churn(t, direct, random, 50)
	server.Start()
	churn(t, direct, random, 20)
	check("after NATS was away")
}
