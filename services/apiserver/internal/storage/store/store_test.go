package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var table = scheme.New()

func open(t *testing.T, cfg store.Config) *store.Store {
	t.Helper()
	cfg.Table = table
	s, err := store.Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("opening the store: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return s
}

func configMap(namespace, name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u1"},
		Data:       map[string]string{"k": value},
	}
}

func create(t *testing.T, s *store.Store, obj scheme.Object) scheme.Object {
	t.Helper()
	made, err := s.Create(t.Context(), table.KindOf(obj), obj)
	if err != nil {
		t.Fatalf("creating: %v", err)
	}
	return made
}

func revision(t *testing.T, obj scheme.Object) int64 {
	t.Helper()
	r, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Fatalf("resourceVersion: %v", err)
	}
	return r
}

func TestCreateGetUpdateDelete(t *testing.T) {
	t.Parallel()
	s := open(t, store.Config{Servers: etcdtest.New(t)})
	kind := scheme.For[*corev1.ConfigMap](table)
	recorder := configMap("default", "a", "1")
	recorder.SetSelfLink("/old")
	made := create(t, s, recorder)
	if recorder.GetSelfLink() != "/old" || recorder.ResourceVersion != "" {
		t.Errorf("the argument was changed: %+v", recorder.ObjectMeta)
	}
	if _, err := s.Create(t.Context(), kind, configMap("default", "a", "2")); !apierrors.IsAlreadyExists(err) {
		t.Errorf("creating twice: %v", err)
	} else if want := `configmaps "a" already exists`; err.Error() != want {
		t.Errorf("creating twice: %q, want %q", err, want)
	}
	got, err := s.Get(t.Context(), kind, "default", "a")
	if err != nil || got.GetResourceVersion() != made.GetResourceVersion() || got.GetSelfLink() != "" {
		t.Errorf("got %v, %v; want version %s", got, err, made.GetResourceVersion())
	}
	if now, err := s.Revision(t.Context()); err != nil || now != revision(t, made) {
		t.Errorf("revision is %d, %v; want %d", now, err, revision(t, made))
	}

	same, err := s.Update(t.Context(), kind, "default", "a", func(c scheme.Object) (scheme.Object, error) { return c, nil })
	if err != nil || same.GetResourceVersion() != made.GetResourceVersion() {
		t.Errorf("an update without a difference: %v, %v", same, err)
	}
	refused := errors.New("refused")
	if _, err := s.Update(t.Context(), kind, "default", "a", func(scheme.Object) (scheme.Object, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Errorf("a refused update: %v", err)
	}
	updated, err := s.Update(t.Context(), kind, "default", "a", func(c scheme.Object) (scheme.Object, error) {
		c.(*corev1.ConfigMap).Data["k"] = "2"
		return c, nil
	})
	if err != nil || revision(t, updated) <= revision(t, made) {
		t.Errorf("updated %v, %v", updated, err)
	}
	if _, err := s.Delete(t.Context(), kind, "default", "a", func(scheme.Object) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("a refused delete: %v", err)
	}
	last, err := s.Delete(t.Context(), kind, "default", "a", nil)
	if err != nil || revision(t, last) <= revision(t, updated) || last.(*corev1.ConfigMap).Data["k"] != "2" {
		t.Errorf("deleted %v, %v", last, err)
	}
	for what, call := range map[string]func() error{
		"get": func() error { _, err := s.Get(t.Context(), kind, "default", "a"); return err },
		"update": func() error {
			_, err := s.Update(t.Context(), kind, "default", "a", func(c scheme.Object) (scheme.Object, error) { return c, nil })
			return err
		},
		"delete": func() error { _, err := s.Delete(t.Context(), kind, "default", "a", nil); return err },
	} {
		if err := call(); !apierrors.IsNotFound(err) || err.Error() != `configmaps "a" not found` {
			t.Errorf("%s of nothing: %v", what, err)
		}
	}
}

func TestBadNames(t *testing.T) {
	t.Parallel()
	s := open(t, store.Config{Servers: etcdtest.New(t)})
	kind := scheme.For[*corev1.ConfigMap](table)
	for _, name := range []string{"", ".", "..", "a/b", "a%b"} {
		if _, err := s.Get(t.Context(), kind, "default", name); !apierrors.IsBadRequest(err) {
			t.Errorf("name %q: %v", name, err)
		}
		if _, err := s.Get(t.Context(), kind, name, "a"); !apierrors.IsBadRequest(err) {
			t.Errorf("namespace %q: %v", name, err)
		}
	}
	versioned := configMap("default", "a", "1")
	versioned.ResourceVersion = "7"
	if _, err := s.Create(t.Context(), kind, versioned); !apierrors.IsBadRequest(err) {
		t.Errorf("creating with a resourceVersion: %v", err)
	}
}

func TestUpdateRetriesLostRaces(t *testing.T) {
	t.Parallel()
	s := open(t, store.Config{Servers: etcdtest.New(t)})
	kind := scheme.For[*corev1.ConfigMap](table)
	create(t, s, configMap("default", "a", "0"))
	const writers, rounds = 8, 5
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for range rounds {
				_, err := s.Update(t.Context(), kind, "default", "a", func(c scheme.Object) (scheme.Object, error) {
					data := c.(*corev1.ConfigMap).Data
					n, err := strconv.Atoi(data["k"])
					data["k"] = strconv.Itoa(n + 1)
					return c, err
				})
				if err != nil {
					t.Errorf("updating: %v", err)
				}
			}
		})
	}
	group.Wait()
	got, err := s.Get(t.Context(), kind, "default", "a")
	if err != nil || got.(*corev1.ConfigMap).Data["k"] != strconv.Itoa(writers*rounds) {
		t.Errorf("got %v, %v; want %d increments", got, err, writers*rounds)
	}

	calls := 0
	_, err = s.Delete(t.Context(), kind, "default", "a", func(scheme.Object) error {
		if calls++; calls == 1 {
			_, err := s.Update(t.Context(), kind, "default", "a", func(c scheme.Object) (scheme.Object, error) {
				c.(*corev1.ConfigMap).Data["k"] = "changed"
				return c, nil
			})
			return err
		}
		return nil
	})
	if err != nil || calls != 2 {
		t.Errorf("a delete that lost a race: %d checks, %v; want 2", calls, err)
	}
}

func TestListPages(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	s := open(t, store.Config{Servers: etcd.Endpoints()})
	kind := scheme.For[*corev1.ConfigMap](table)
	const count = 1205 // more than two range reads
	values := map[string]string{}
	data, err := table.EncodeStorage(kind, configMap("default", "x", "1"))
	if err != nil {
		t.Fatal(err)
	}
	var written int64
	for i := range count {
		values[fmt.Sprintf("/registry/configmaps/default/c%04d", i)] = string(data)
		if len(values) == 100 || i == count-1 {
			written = etcd.Put(t, values)
			values = map[string]string{}
		}
	}
	create(t, s, configMap("other", "o", "1"))

	all, err := s.List(t.Context(), kind, store.ListOptions{})
	if err != nil || len(all.Objects) != count+1 || all.Continue != "" || all.Remaining != nil {
		t.Fatalf("listed %d, continue %q, %v; want %d", len(all.Objects), all.Continue, err, count+1)
	}
	old, err := s.List(t.Context(), kind, store.ListOptions{Revision: written})
	if err != nil || len(old.Objects) != count || old.Revision != written {
		t.Errorf("listed %d at %d, %v; want %d at %d", len(old.Objects), old.Revision, err, count, written)
	}

	opts := store.ListOptions{Namespace: "default", Limit: 500}
	var got int
	var first int64
	for pages := 0; ; pages++ {
		page, err := s.List(t.Context(), kind, opts)
		if err != nil {
			t.Fatalf("page %d: %v", pages, err)
		}
		if pages == 0 {
			first = page.Revision
			if page.Remaining == nil || *page.Remaining != count-500 {
				t.Errorf("remaining after the first page: %v", page.Remaining)
			}
			create(t, s, configMap("default", "zz", "1")) // not in the list, which shows one revision
		}
		if page.Revision != first {
			t.Errorf("page %d is of revision %d, want %d", pages, page.Revision, first)
		}
		got += len(page.Objects)
		if page.Continue == "" {
			break
		}
		opts.Continue = page.Continue
	}
	if got != count {
		t.Errorf("%d objects in pages, want %d", got, count)
	}

	kept, err := s.List(t.Context(), kind, store.ListOptions{Namespace: "default", Limit: 2, Keep: func(obj scheme.Object) bool {
		return strings.HasSuffix(obj.GetName(), "x")
	}})
	if err != nil || len(kept.Objects) != 2 || kept.Continue == "" || kept.Remaining != nil {
		t.Errorf("a selected page: %d, continue %q, remaining %v, %v", len(kept.Objects), kept.Continue, kept.Remaining, err)
	}
}

func TestListExpired(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	s := open(t, store.Config{Servers: etcd.Endpoints()})
	kind := scheme.For[*corev1.ConfigMap](table)
	for i := range 4 {
		create(t, s, configMap("default", fmt.Sprintf("c%d", i), "1"))
	}
	page, err := s.List(t.Context(), kind, store.ListOptions{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	last := create(t, s, configMap("default", "c9", "1"))
	etcd.Compact(t, revision(t, last))

	_, err = s.List(t.Context(), kind, store.ListOptions{Revision: page.Revision})
	if !apierrors.IsResourceExpired(err) || err.Error() != "The resourceVersion for the provided list is too old." {
		t.Errorf("a compacted revision: %v", err)
	}
	_, err = s.List(t.Context(), kind, store.ListOptions{Limit: 2, Continue: page.Continue})
	var expired apierrors.APIStatus
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &expired) || expired.Status().Continue == "" {
		t.Fatalf("a compacted page: %v", err)
	}
	rest, err := s.List(t.Context(), kind, store.ListOptions{Continue: expired.Status().Continue})
	if err != nil || len(rest.Objects) != 3 {
		t.Errorf("the rest after expiry: %d, %v; want 3", len(rest.Objects), err)
	}
	_, err = s.List(t.Context(), kind, store.ListOptions{Revision: 1 << 40})
	if !apierrors.IsTimeout(err) || !strings.HasPrefix(err.Error(), "Timeout: Too large resource version: 1099511627776, current: ") {
		t.Errorf("a revision of the future: %v", err)
	}
	for _, token := range []string{"x", "e30", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiIuLi9zZWNyZXRzIn0"} {
		if _, err := s.List(t.Context(), kind, store.ListOptions{Continue: token}); !apierrors.IsBadRequest(err) {
			t.Errorf("continue %q: %v", token, err)
		}
	}
}

// TestCorruptValue checks that an unreadable value does not hide others, and that a client that
// asks for it gets its key and the error.
func TestCorruptValue(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	registry := prometheus.NewRegistry()
	var logged strings.Builder
	s := open(t, store.Config{Servers: etcd.Endpoints(), Registerer: registry, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	kind := scheme.For[*corev1.ConfigMap](table)
	create(t, s, configMap("default", "a", "1"))
	create(t, s, configMap("default", "c", "1"))
	const key = "/registry/configmaps/default/bad"
	etcd.Put(t, map[string]string{key: "k8s\x00rubbish"})
	for what, call := range map[string]func() error{
		"get": func() error { _, err := s.Get(t.Context(), kind, "default", "bad"); return err },
		"update": func() error {
			_, err := s.Update(t.Context(), kind, "default", "bad", func(c scheme.Object) (scheme.Object, error) { return c, nil })
			return err
		},
	} {
		err := call()
		var corrupt *store.CorruptError
		if !errors.As(err, &corrupt) || corrupt.Key != key || !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s of a corrupt value: %v", what, err)
		}
	}
	for _, limit := range []int64{0, 1, 2} {
		var names []string
		opts := store.ListOptions{Limit: limit}
		for {
			page, err := s.List(t.Context(), kind, opts)
			if err != nil {
				t.Fatal(err)
			}
			for _, obj := range page.Objects {
				names = append(names, obj.GetName())
			}
			if opts.Continue = page.Continue; opts.Continue == "" {
				break
			}
		}
		if !slices.Equal(names, []string{"a", "c"}) {
			t.Errorf("a list by %d beside a corrupt value shows %v", limit, names)
		}
	}
	if !strings.Contains(logged.String(), "level=ERROR") || !strings.Contains(logged.String(), key) {
		t.Errorf("the log says %q", logged.String())
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			values[family.GetName()] += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	if values["apiserver_storage_decode_errors_total"] < 5 || values["apiserver_storage_size_bytes"] < 1000 {
		t.Errorf("the metrics are %v", values)
	}
}

func TestEventsShareLeases(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	recorder := trace.NewRecorder(10)
	s := open(t, store.Config{Servers: etcd.Endpoints(), EventTTL: 40 * time.Minute, Trace: recorder})
	for i := range 3 {
		create(t, s, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("e%d", i)}})
	}
	granted, keys := etcd.Lease(t, "/registry/events/default/e0")
	if granted != 41*60 || keys != 3 {
		t.Errorf("the events' lease: %d s for %d keys, want %d s for 3", granted, keys, 41*60)
	}
	create(t, s, configMap("default", "a", "1"))
	if granted, _ := etcd.Lease(t, "/registry/configmaps/default/a"); granted != 0 {
		t.Errorf("a config map has a lease of %d s", granted)
	}
	etcd.Revoke(t, "/registry/events/default/e0")
	// The lease that the store still knows is gone: the store grants another.
	create(t, s, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "after"}})
	if granted, _ := etcd.Lease(t, "/registry/events/default/after"); granted == 0 {
		t.Error("the event after the lease's end has no lease")
	}
	hops := recorder.Hops(func(h trace.Hop) bool { return h.Resource == "configmaps" })
	if len(hops) != 1 || hops[0].Step != trace.Commit || hops[0].Name != "a" || hops[0].Revision == 0 {
		t.Errorf("hops: %+v", hops)
	}
}

func TestOpenFailsPlainly(t *testing.T) {
	for what, cfg := range map[string]store.Config{
		"no server":      {Table: table},
		"no table":       {Servers: []string{"http://127.0.0.1:1"}},
		"no certificate": {Table: table, Servers: []string{"https://127.0.0.1:1"}, CAFile: "/does/not/exist"},
	} {
		if _, err := store.Open(t.Context(), cfg); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// TestOpenWaitsForEtcd checks that Open tries more than once and ends with its context.
func TestOpenWaitsForEtcd(t *testing.T) {
	var log strings.Builder
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	_, err := store.Open(ctx, store.Config{
		Servers: []string{"http://127.0.0.1:1"}, Table: table, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err == nil || !strings.Contains(err.Error(), "etcd at http://127.0.0.1:1 does not answer") {
		t.Errorf("the error is %v", err)
	}
	if !strings.Contains(log.String(), `msg="waiting for etcd" attempt=1 of=6`) {
		t.Errorf("the log says %s", &log)
	}
}
