package store_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// TestFull checks that an etcd with a full database refuses writes that would make it larger, with
// an error that says what to do. It must still serve reads and accept deletions.
func TestFull(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.StartSmall(t, 8<<20)
	s := open(t, store.Config{Servers: etcd.Endpoints()})
	kind := scheme.For[*corev1.ConfigMap](table)
	create(t, s, configMap("default", "kept", "1"))
	create(t, s, configMap("default", "doomed", "1"))
	etcd.Fill(t)

	refused := func(what string, err error) {
		t.Helper()
		var status apierrors.APIStatus
		if !errors.As(err, &status) || status.Status().Code != 500 || !strings.HasPrefix(status.Status().Message, "etcdserver: mvcc: database space exceeded: nothing can be written until") {
			t.Errorf("%s: %v", what, err)
		}
		if apierrors.IsTimeout(err) || apierrors.IsServiceUnavailable(err) {
			t.Errorf("%s: the error tells clients to retry: %v", what, err)
		}
	}
	_, err := s.Create(t.Context(), kind, configMap("default", "new", "1"))
	refused("creating", err)
	_, err = s.Update(t.Context(), kind, "default", "kept", func(scheme.Object) (scheme.Object, error) {
		return configMap("default", "kept", "2"), nil
	})
	refused("updating", err)
	event := scheme.For[*corev1.Event](table)
	_, err = s.Create(t.Context(), event, &corev1.Event{ObjectMeta: configMap("default", "e", "").ObjectMeta})
	refused("an event, which needs a lease", err)

	if _, err := s.Get(t.Context(), kind, "default", "kept"); err != nil {
		t.Errorf("reading: %v", err)
	}
	if page, err := s.List(t.Context(), kind, store.ListOptions{}); err != nil || len(page.Objects) != 2 {
		t.Errorf("listing: %d, %v", len(page.Objects), err)
	}
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("the store is not ready: %v", err)
	}
	if _, err := s.Delete(t.Context(), kind, "default", "doomed", func(scheme.Object) error { return nil }); err != nil {
		t.Errorf("deleting: %v", err)
	}

	etcd.MakeRoom(t)
	create(t, s, configMap("default", "new", "1"))
	if page, err := s.List(t.Context(), kind, store.ListOptions{}); err != nil || len(page.Objects) != 2 {
		t.Errorf("after there is room again: %d, %v", len(page.Objects), err)
	}
}
