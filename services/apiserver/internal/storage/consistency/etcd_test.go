package consistency

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// TestRealCachesAreConsistent checks that no cache of a real etcd is found to differ, while objects in namespaces and in
// none come and go, some more than a page has, and one cannot be read.
func TestRealCachesAreConsistent(t *testing.T) {
	etcd, table, logger := etcdtest.Start(t), scheme.New(), slog.New(slog.NewTextHandler(t.Output(), nil))
	s, err := store.Open(t.Context(), store.Config{Servers: etcd.Endpoints(), Table: table})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	feeds := feed.New(feed.Config{Store: s, Table: table, Logger: logger, Patience: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- feeds.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	maps, nodes := scheme.For[*corev1.ConfigMap](table), scheme.For[*corev1.Node](table)
	put := func(kind *scheme.Kind, obj scheme.Object) {
		t.Helper()
		if _, err := s.Create(ctx, kind, obj); err != nil {
			t.Fatal(err)
		}
	}
	put(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	for i := range 600 {
		put(maps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("ns-", i%3), Name: fmt.Sprint(i)}})
	}
	etcd.Put(t, map[string]string{"/registry/configmaps/ns-0/broken": "broken", "/registry/minions/broken": "broken"})
	if _, err := s.Delete(ctx, maps, "ns-0", "3", nil); err != nil {
		t.Fatal(err)
	}
	now, err := s.Revision(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c := New(Config{Table: table, Storage: s, Logger: logger, Cache: func(kind *scheme.Kind) Cache { return feeds.Of(kind) }})
	for _, kind := range table.Kinds() {
		if !kind.Stored() {
			continue
		}
		if err := feeds.Of(kind).WaitFor(ctx, now); err != nil {
			t.Fatal(err)
		}
		if difference, err := c.compare(ctx, kind, feeds.Of(kind)); difference != "" || err != nil {
			t.Errorf("%s: %s, %v", kind.Resource, difference, err)
		}
	}
}
