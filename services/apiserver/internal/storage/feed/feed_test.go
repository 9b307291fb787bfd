package feed_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deadline bounds every wait for an expected event; only failures reach it.
const deadline = time.Minute

var (
	table   = scheme.New()
	podKind = scheme.For[*corev1.Pod](table)
)

type plane struct {
	t     *testing.T
	etcd  *etcdtest.Server
	store *store.Store
	feeds *feed.Feeds
	pods  *feed.Feed
	stop  func()
}

func start(t *testing.T, etcd *etcdtest.Server, cfg feed.Config) *plane {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Servers: etcd.Endpoints(), Table: table})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Store, cfg.Table, cfg.Logger = s, table, slog.New(slog.DiscardHandler)
	cfg.Patience = cmp.Or(cfg.Patience, deadline)
	p := &plane{t: t, etcd: etcd, store: s, feeds: feed.New(cfg)}
	p.pods = p.feeds.Of(podKind)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.feeds.Run(ctx) }()
	stopped := false
	p.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("running the feeds: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(p.stop)
	ready, readyCancel := context.WithTimeout(t.Context(), deadline)
	defer readyCancel()
	if err := p.feeds.Ready(ready); err != nil {
		t.Fatalf("the feeds are not ready: %v", err)
	}
	return p
}

func pod(namespace, name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

func (p *plane) create(namespace, name, node string) int64 {
	p.t.Helper()
	obj, err := p.store.Create(p.t.Context(), podKind, pod(namespace, name, node))
	if err != nil {
		p.t.Fatal(err)
	}
	return revision(p.t, obj)
}

func (p *plane) update(namespace, name string, change func(*corev1.Pod)) int64 {
	p.t.Helper()
	obj, err := p.store.Update(p.t.Context(), podKind, namespace, name, func(o scheme.Object) (scheme.Object, error) {
		change(o.(*corev1.Pod))
		return o, nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return revision(p.t, obj)
}

func (p *plane) delete(namespace, name string) int64 {
	p.t.Helper()
	obj, err := p.store.Delete(p.t.Context(), podKind, namespace, name, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return revision(p.t, obj)
}

func revision(t *testing.T, obj scheme.Object) int64 {
	t.Helper()
	r, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (p *plane) watch(view fabric.View, from int64) *feed.Watcher {
	p.t.Helper()
	w, err := p.pods.Watch(p.t.Context(), view, from)
	if err != nil {
		p.t.Fatal(err)
	}
	return w
}

// events collects what the watcher receives until it has reached a revision.
func events(t *testing.T, w *feed.Watcher, through int64) []string {
	t.Helper()
	var got []string
	timeout := time.After(deadline)
	for {
		select {
		case batch, ok := <-w.Events():
			if !ok {
				t.Fatalf("the watch ended: %v", w.Err())
			}
			for _, e := range batch.Events {
				what := "put"
				if e.Deleted {
					what = "deleted"
				}
				if v := e.Object.GetResourceVersion(); v != strconv.FormatInt(e.Revision, 10) {
					t.Errorf("an event at %d holds an object at %s", e.Revision, v)
				}
				got = append(got, fmt.Sprintf("%s %s/%s %s>%s", what, e.Namespace, e.Name, e.OldScope, e.Scope))
			}
			if batch.Revision >= through {
				return got
			}
		case <-timeout:
			t.Fatalf("revision %d never came; got %v", through, got)
		}
	}
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

func TestViewsSeeTheirChanges(t *testing.T) {
	t.Parallel()
	p := start(t, etcdtest.Start(t), feed.Config{})
	_, from := p.pods.Window()
	watchers := map[string]*feed.Watcher{
		"all": p.watch(fabric.View{}, from), "default": p.watch(fabric.View{Namespace: "default"}, from),
		"name": p.watch(fabric.View{Namespace: "default", Name: "a"}, from), "unbound": p.watch(fabric.View{Scope: scheme.Unscoped}, from),
		"n1": p.watch(fabric.View{Scope: "n1"}, from), "n1 in other": p.watch(fabric.View{Scope: "n1", Namespace: "other"}, from),
		"name anywhere": p.watch(fabric.View{Name: "b"}, from),
	}
	p.create("default", "a", "")
	p.create("other", "b", "n1")
	p.update("default", "a", func(pod *corev1.Pod) { pod.Spec.NodeName = "n1" })
	p.delete("other", "b")
	last := p.delete("default", "a")
	want := map[string][]string{
		"all":           {"put default/a ~>~", "put other/b n1>n1", "put default/a ~>n1", "deleted other/b n1>n1", "deleted default/a n1>n1"},
		"default":       {"put default/a ~>~", "put default/a ~>n1", "deleted default/a n1>n1"},
		"name":          {"put default/a ~>~", "put default/a ~>n1", "deleted default/a n1>n1"},
		"unbound":       {"put default/a ~>~", "put default/a ~>n1"},
		"n1":            {"put other/b n1>n1", "put default/a ~>n1", "deleted other/b n1>n1", "deleted default/a n1>n1"},
		"n1 in other":   {"put other/b n1>n1", "deleted other/b n1>n1"},
		"name anywhere": {"put other/b n1>n1", "deleted other/b n1>n1"},
	}
	for name, w := range watchers {
		equal(t, name, events(t, w, last), want[name])
		w.Stop()
		if _, open := <-w.Events(); open && w.Err() != nil {
			t.Errorf("%s: after Stop: %v", name, w.Err())
		}
	}
}

func TestPrevsChainEachView(t *testing.T) {
	t.Parallel()
	p := start(t, etcdtest.Start(t), feed.Config{})
	start, from := p.pods.Window()
	w := p.watch(fabric.View{}, from)
	a := p.create("x", "a", "")
	b := p.create("y", "b", "n1")
	bind := p.update("x", "a", func(pod *corev1.Pod) { pod.Spec.NodeName = "n1" })
	gone := p.delete("y", "b")
	type prevs struct{ all, namespace, scope, old int64 }
	want := []prevs{
		{start, start, start, start},
		{a, start, start, start},
		{b, a, b, a},
		{bind, b, bind, bind},
	}
	var got []prevs
	for len(got) < len(want) {
		select {
		case batch := <-w.Events():
			for _, e := range batch.Events {
				got = append(got, prevs{e.PrevAll, e.PrevNamespace, e.PrevScope, e.PrevOldScope})
				if !e.Alone {
					t.Errorf("event at %d is not alone", e.Revision)
				}
			}
		case <-time.After(deadline):
			t.Fatal("no events")
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("prevs:\n got %v\nwant %v (deleted at %d)", got, want, gone)
	}
}

func TestSeveralChangesInOneRevision(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	p := start(t, etcd, feed.Config{})
	before := p.create("x", "a", "n1")
	p.create("y", "b", "n2")
	last := p.create("x", "c", "")
	w := p.watch(fabric.View{}, last)
	gone := etcd.DeletePrefix(t, "/registry/pods/")
	select {
	case batch := <-w.Events():
		for batch.Revision < gone {
			batch = <-w.Events()
		}
		if batch.Revision != gone || len(batch.Events) != 3 {
			t.Fatalf("batch at %d with %d events, want one at %d with 3", batch.Revision, len(batch.Events), gone)
		}
		for _, e := range batch.Events {
			if e.Alone || e.PrevAll != last {
				t.Errorf("%s: alone %v, prev %d; want prev %d", e.Name, e.Alone, e.PrevAll, last)
			}
			if e.Name == "a" && e.PrevScope != before {
				t.Errorf("prev of a in its scope: %d, want %d", e.PrevScope, before)
			}
		}
	case <-time.After(deadline):
		t.Fatal("no batch")
	}
	delta, ok := p.pods.Since(fabric.View{Namespace: "x"}, last)
	if !ok || delta.Whole || delta.Prev != last || delta.Revision < gone || len(delta.Changes) != 2 || !delta.Changes[0].Deleted {
		t.Errorf("since %d: %+v", last, delta)
	}
}

func TestSnapshotWaits(t *testing.T) {
	t.Parallel()
	p := start(t, etcdtest.Start(t), feed.Config{})
	p.create("x", "b", "")
	p.create("x", "a", "n1")
	at := p.create("y", "a", "n1")
	for _, c := range []struct {
		view fabric.View
		want []string
	}{
		{fabric.View{}, []string{"x/a", "x/b", "y/a"}},
		{fabric.View{Namespace: "x"}, []string{"x/a", "x/b"}},
		{fabric.View{Scope: "n1"}, []string{"x/a", "y/a"}},
		{fabric.View{Scope: "n1", Namespace: "y"}, []string{"y/a"}},
		{fabric.View{Namespace: "x", Name: "b"}, []string{"x/b"}},
		{fabric.View{Name: "a"}, []string{"x/a", "y/a"}},
		{fabric.View{Namespace: "none"}, nil},
	} {
		objects, revision, err := p.pods.Snapshot(t.Context(), c.view, at)
		if err != nil || revision < at {
			t.Fatalf("%+v: at %d, %v", c.view, revision, err)
		}
		var got []string
		for _, o := range objects {
			got = append(got, o.GetNamespace()+"/"+o.GetName())
		}
		equal(t, fmt.Sprint(c.view), got, c.want)
	}
	// A write to another resource raises etcd's revision, and the quiet feed follows.
	other, err := p.store.Create(t.Context(), scheme.For[*corev1.ConfigMap](table), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "c"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, got, err := p.pods.Snapshot(t.Context(), fabric.View{}, revision(t, other)); err != nil || got < revision(t, other) {
		t.Errorf("a snapshot at another resource's revision: %d, %v", got, err)
	}
	hasty := start(t, p.etcd, feed.Config{Patience: time.Millisecond})
	_, _, err = hasty.pods.Snapshot(t.Context(), fabric.View{}, 1<<40)
	if !apierrors.IsTimeout(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		t.Errorf("a snapshot of the future: %v", err)
	}
}

func TestWindowIsTrimmed(t *testing.T) {
	t.Parallel()
	p := start(t, etcdtest.Start(t), feed.Config{WindowEvents: 5})
	var made []int64
	for i := range 9 {
		made = append(made, p.create("x", fmt.Sprintf("p%d", i), ""))
	}
	if err := p.pods.WaitFor(t.Context(), made[8]); err != nil {
		t.Fatal(err)
	}
	if w, _ := p.pods.Window(); w != made[3] {
		t.Errorf("the window starts at %d, want %d", w, made[3])
	}
	if _, err := p.pods.Watch(t.Context(), fabric.View{}, made[2]); !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch from before the window: %v", err)
	}
	if got := events(t, p.watch(fabric.View{}, made[3]), made[8]); len(got) != 5 {
		t.Errorf("the window's events: %v", got)
	}
	if delta, ok := p.pods.Since(fabric.View{}, made[2]); !ok || !delta.Whole || len(delta.Changes) != 9 {
		t.Errorf("since before the window: %v, whole %v, %d entries", ok, delta.Whole, len(delta.Changes))
	}
	if delta, ok := p.pods.Since(fabric.View{Namespace: "quiet"}, made[4]); !ok || delta.Whole || len(delta.Changes) != 0 {
		t.Errorf("a quiet view: %v, %+v", ok, delta)
	}
	if _, ok := p.pods.Since(fabric.View{}, 1<<40); ok {
		t.Error("got an answer about the future")
	}
}

func TestRestartPrefillsTheWindow(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	p := start(t, etcd, feed.Config{})
	first := p.create("x", "a", "")
	p.update("x", "a", func(pod *corev1.Pod) { pod.Spec.NodeName = "n1" })
	p.create("x", "b", "n1")
	last := p.delete("x", "a")
	p.stop()

	again := start(t, etcd, feed.Config{})
	if w, s := again.pods.Window(); w > first || s < last {
		t.Fatalf("window (%d, %d], want it to cover (%d, %d]", w, s, first, last)
	}
	equal(t, "history", events(t, again.watch(fabric.View{Scope: "n1"}, first), last),
		[]string{"put x/a ~>n1", "put x/b n1>n1", "deleted x/a n1>n1"})
	again.stop()

	etcd.Compact(t, last)
	compacted := start(t, etcd, feed.Config{})
	if w, _ := compacted.pods.Window(); w != last {
		t.Errorf("the window starts at %d, want the compacted %d", w, last)
	}
	objects, _, err := compacted.pods.Snapshot(t.Context(), fabric.View{}, 0)
	if err != nil || len(objects) != 1 {
		t.Errorf("after compaction: %d objects, %v", len(objects), err)
	}
}

func TestSlowWatcherIsCutOff(t *testing.T) {
	t.Parallel()
	p := start(t, etcdtest.Start(t), feed.Config{})
	at := p.create("x", "a", "")
	slow, fast := p.watch(fabric.View{}, at), p.watch(fabric.View{Namespace: "x"}, at)
	const count = 600 // more than a watcher's buffer
	var last int64
	// The fast watcher must never be far behind: etcd may report many changes at once.
	for i := range count {
		last = p.update("x", "a", func(pod *corev1.Pod) { pod.Labels = map[string]string{"n": strconv.Itoa(i)} })
		if got := events(t, fast, last); len(got) != 1 {
			t.Fatalf("the fast watcher got %v of change %d", got, i)
		}
	}
	heard := at
	for batch := range slow.Events() {
		heard = batch.Revision
	}
	if slow.Err() == nil || heard <= at {
		t.Errorf("the slow watcher heard up to %d and ended with %v", heard, slow.Err())
	}
	// A new watch continues where the old one ended and has missed nothing.
	if got := events(t, p.watch(fabric.View{}, heard), last); int64(len(got)) != last-heard {
		t.Errorf("%d events after %d, want %d", len(got), heard, last-heard)
	}
}

func TestUndecodableIsNotShown(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	p := start(t, etcd, feed.Config{})
	at := p.create("x", "a", "")
	w := p.watch(fabric.View{}, at)
	etcd.Put(t, map[string]string{"/registry/pods/x/new": "rubbish"})
	etcd.Put(t, map[string]string{"/registry/pods/x/a": "rubbish"})
	etcd.Put(t, map[string]string{"/registry/pods/x/a": ""})
	last := p.create("x", "b", "")
	equal(t, "events", events(t, w, last), []string{"deleted x/a ~>~", "put x/b ~>~"})
}

func TestEtcdRestart(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	p := start(t, etcd, feed.Config{})
	at := p.create("x", "a", "")
	w := p.watch(fabric.View{}, at)
	etcd.Restart(t)
	last := p.create("x", "b", "")
	equal(t, "events over a restart of etcd", events(t, w, last), []string{"put x/b ~>~"})
	if w.Err() != nil {
		t.Errorf("the watch ended: %v", w.Err())
	}
}

func TestSnapshotAndWatch(t *testing.T) {
	t.Parallel()
	p := start(t, etcdtest.Start(t), feed.Config{})
	p.create("x", "a", "")
	reading, w, err := p.pods.ReadAndWatch(t.Context(), fabric.View{}, p.create("x", "b", ""))
	if err != nil || len(reading.Items) != 2 {
		t.Fatalf("%+v, %v", reading, err)
	}
	last := p.create("x", "c", "")
	equal(t, "after the snapshot", events(t, w, last), []string{"put x/c ~>~"})
	if reading.Revision >= last {
		t.Errorf("snapshot at %d, next change at %d", reading.Revision, last)
	}
	// Progress advances a quiet watch.
	select {
	case batch := <-w.Events():
		if len(batch.Events) != 0 || batch.Head != last {
			t.Errorf("progress: %+v, want head %d", batch, last)
		}
	case <-time.After(deadline):
		t.Error("no progress")
	}
}

// TestSetBack sets etcd back to a backup without raising its revisions, as no operator should: once
// so that it is behind what was seen, and once so that it is already past it.
func TestSetBack(t *testing.T) {
	t.Parallel()
	for name, hidden := range map[string]int{"behind": 0, "past": 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcd := etcdtest.Start(t)
			p := start(t, etcd, feed.Config{})
			p.create("x", "kept", "")
			saved := etcd.Save(t)
			seen := p.create("x", "lost", "")
			if err := p.pods.WaitFor(t.Context(), seen); err != nil {
				t.Fatal(err)
			}
			old := p.pods.History()
			w := p.watch(fabric.View{}, seen)
			raw := etcd.Values(t, "/registry/pods/x/kept")["/registry/pods/x/kept"]
			etcd.SetBack(t, saved, func(e *etcdtest.Server) {
				for i := range hidden {
					e.Put(t, map[string]string{fmt.Sprintf("/registry/pods/x/h%02d", i): raw})
				}
			})
			for range w.Events() {
			}
			if w.Err() == nil {
				t.Error("the watch over a break in history ended without an error")
			}
			ready, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			if err := p.pods.WaitFor(ready, 0); err != nil {
				t.Fatal(err)
			}
			objects, _, err := p.pods.Snapshot(t.Context(), fabric.View{}, 0)
			if err != nil || len(objects) != 1+hidden {
				t.Errorf("after the break: %d objects, %v; want %d", len(objects), err, 1+hidden)
			}
			renewed := p.pods.History()
			if !old.Before(renewed) {
				t.Errorf("the history was %v and is %v", old, renewed)
			}
			// A feed that saw nothing before the break is in the new history too.
			quiet := p.feeds.Of(scheme.For[*corev1.Node](table))
			for quiet.History() != renewed {
				select {
				case <-ready.Done():
					t.Fatalf("a quiet feed is in the history %v, want %v", quiet.History(), renewed)
				case <-time.After(10 * time.Millisecond):
				}
			}
		})
	}
}

// TestProgressOfAQuietEtcd checks that a watch from the present learns that the feed still hears
// etcd, even if nothing at all is written.
func TestProgressOfAQuietEtcd(t *testing.T) {
	t.Parallel()
	p := start(t, etcdtest.Start(t), feed.Config{})
	_, through := p.pods.Window()
	w := p.watch(fabric.View{}, through)
	for range 3 {
		select {
		case batch := <-w.Events():
			if batch.Revision != through || len(batch.Events) != 0 {
				t.Errorf("progress: %+v, want revision %d", batch, through)
			}
		case <-time.After(deadline):
			t.Fatal("no progress")
		}
	}
}
