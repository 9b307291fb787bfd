package store_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/election"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

func TestEveryWriteIsGuarded(t *testing.T) {
	t.Parallel()
	g := &etcdtest.Guard{}
	s := open(t, store.Config{
		Servers:     etcdtest.New(t),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(g.Intercept)},
	})
	ctx, kind := t.Context(), scheme.For[*corev1.ConfigMap](table)
	create(t, s, configMap("default", "a", "1"))
	create(t, s, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}})
	if _, err := s.Update(ctx, kind, "default", "a", func(o scheme.Object) (scheme.Object, error) {
		o.SetLabels(map[string]string{"x": "y"})
		return o, nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(ctx, kind, "default", "a", nil); err != nil {
		t.Fatal(err)
	}
	history, err := s.History(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.RenewHistory(ctx, history); err != nil {
		t.Fatal(err)
	}
	leading, cancel := context.WithCancel(ctx)
	if err := s.Campaign(leading, election.Election{Name: "test"}, func(context.Context) error { cancel(); return nil }); err != nil {
		t.Fatal(err)
	}
	g.Check(t, 7)
}

// TestGoldenKeys compares the key of every kind with kube-apiserver's.
func TestGoldenKeys(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	s := open(t, store.Config{Servers: etcd.Endpoints()})
	for _, kind := range table.Kinds() {
		if !kind.Stored() {
			continue
		}
		obj := kind.New()
		obj.SetName("name")
		if kind.Namespaced {
			obj.SetNamespace("space")
		}
		if _, err := s.Create(t.Context(), kind, obj); err != nil {
			t.Fatalf("creating a %s: %v", kind.Kind, err)
		}
	}
	golden, err := os.ReadFile("testdata/keys.txt")
	if err != nil {
		t.Fatal(err)
	}
	values := etcd.Values(t, "/registry/")
	var keys []string
	for key, value := range values {
		keys = append(keys, key)
		begin := "k8s\x00"
		switch {
		case strings.HasPrefix(key, "/registry/apiextensions.k8s.io/"):
			begin = `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1",`
		case strings.HasPrefix(key, "/registry/apiregistration.k8s.io/"):
			begin = `{"kind":"APIService","apiVersion":"apiregistration.k8s.io/v1",`
		}
		if !strings.HasPrefix(value, begin) {
			t.Errorf("the value of %s is not in Kubernetes' storage encoding: %q", key, value)
		}
	}
	slices.Sort(keys)
	if got := strings.Join(keys, "\n") + "\n"; got != string(golden) {
		t.Errorf("keys:\n%s\nwant:\n%s", got, golden)
	}
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	one := open(t, store.Config{Servers: etcd.Endpoints(), Prefix: "one/"})
	two := open(t, store.Config{Servers: etcd.Endpoints(), Prefix: "/two"})
	create(t, one, configMap("default", "a", "1"))
	create(t, two, configMap("default", "a", "1"))
	for _, key := range []string{"/one/configmaps/default/a", "/two/configmaps/default/a"} {
		if len(etcd.Values(t, key)) != 1 {
			t.Errorf("%s is not there", key)
		}
	}
	// Both live on one etcd, so they share its history.
	first, err := one.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if second, err := two.History(t.Context()); err != nil || second != first {
		t.Errorf("histories %v and %v, %v", first, second, err)
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	servers := etcdtest.New(t)
	a, b := open(t, store.Config{Servers: servers}), open(t, store.Config{Servers: servers})
	first, err := a.History(t.Context())
	if err != nil || first.Created == 0 {
		t.Fatalf("history %v, %v", first, err)
	}
	renewed, err := a.RenewHistory(t.Context(), first)
	if err != nil || !first.Before(renewed) || renewed.Before(first) {
		t.Errorf("renewed %v to %v, %v", first, renewed, err)
	}
	late, err := b.RenewHistory(t.Context(), first)
	if err != nil || late != renewed {
		t.Errorf("a second renewal of %v gave %v, %v; want %v", first, late, err, renewed)
	}
	if now, err := b.History(t.Context()); err != nil || now != renewed {
		t.Errorf("history %v, %v; want %v", now, err, renewed)
	}
}

func waitFor[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(time.Minute):
		t.Fatal("timed out waiting for a value")
		panic("not reached")
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	s := open(t, store.Config{Servers: etcd.Endpoints()})
	kind := scheme.For[*appsv1.Deployment](table)
	first := revision(t, create(t, s, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "a"}}))
	create(t, s, configMap("x", "other", "1"))
	last, err := s.Delete(t.Context(), kind, "x", "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	updates := make(chan store.Update, 1000) // room for etcd's answers to all requests below
	progress := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- s.Follow(ctx, kind, first-1, progress, func(u store.Update) error { updates <- u; return nil })
	}()
	var records []store.Record
	for len(records) < 2 {
		records = append(records, waitFor(t, updates).Records...)
	}
	if records[0].Revision != first || records[0].Deleted || records[0].Name != "a" || records[0].Namespace != "x" ||
		records[1].Revision != revision(t, last) || !records[1].Deleted {
		t.Errorf("records: %+v", records)
	}
	if obj, err := s.Object(kind, records[0]); err != nil || revision(t, obj) != first {
		t.Errorf("the first record's object: %v, %v", obj, err)
	}
	now := revision(t, create(t, s, configMap("x", "another", "1")))
	for told := int64(0); told < now; {
		select {
		case progress <- struct{}{}:
		default:
		}
		select {
		case u := <-updates:
			if told = u.Revision; len(u.Records) != 0 {
				t.Errorf("records of another kind: %+v", u.Records)
			}
		case <-time.After(100 * time.Millisecond): // etcd stays silent until the watch has caught up
		}
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("following ended without an error")
	}

	etcd.Compact(t, now)
	err = s.Follow(t.Context(), kind, first-1, nil, func(store.Update) error { return nil })
	if compacted, ok := errors.AsType[*store.CompactedError](err); !ok || compacted.Oldest != now {
		t.Errorf("following from a compacted revision: %v, want the oldest %d", err, now)
	}
	if oldest, err := s.Oldest(t.Context(), first); err != nil || oldest != now {
		t.Errorf("the oldest revision is %d, %v; want %d", oldest, err, now)
	}
	if err := s.Scan(t.Context(), kind, first, func([]store.Record) {}); err == nil {
		t.Error("a scan of a compacted revision succeeded")
	}
	var seen int
	if err := s.Scan(t.Context(), scheme.For[*corev1.ConfigMap](table), now, func(r []store.Record) { seen += len(r) }); err != nil || seen != 2 {
		t.Errorf("scanned %d, %v; want 2", seen, err)
	}
}

func FuzzContinueToken(f *testing.F) {
	etcd := etcdtest.Start(f)
	s, err := store.Open(f.Context(), store.Config{Servers: etcd.Endpoints(), Table: table})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := s.Close(); err != nil {
			f.Error(err)
		}
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}}
	if _, err := s.Create(f.Context(), table.KindOf(secret), secret); err != nil {
		f.Fatal(err)
	}
	for _, token := range []string{
		"", "x", "e30", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYS9iXHUwMDAwIn0",
		"eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiIuLi9zZWNyZXRzIn0",
	} {
		f.Add(token)
	}
	kind := scheme.For[*corev1.ConfigMap](table)
	f.Fuzz(func(t *testing.T, token string) {
		page, err := s.List(t.Context(), kind, store.ListOptions{Continue: token})
		if err == nil && len(page.Objects) != 0 {
			t.Errorf("token %q reads %v", token, page.Objects)
		}
	})
}
