package objectcache

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/scheme"
)

func settings(namespace, mode string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "settings"}, Data: map[string]string{"mode": mode}}
}

// TestForget: repeated reads cost one read, but a new pod sees the current objects.
func TestForget(t *testing.T) { synctest.Test(t, testForget) }

func testForget(t *testing.T) {
	api := fake.New(scheme.New(), settings("a", "slow"), settings("b", "slow"))
	r := New(api, slog.New(slog.DiscardHandler))
	mode := func(namespace string) string {
		t.Helper()
		cm, err := r.ConfigMap(t.Context(), namespace, "settings")
		if err != nil {
			t.Fatal(err)
		}
		return cm.Data["mode"]
	}
	for _, namespace := range []string{"a", "b"} {
		if got := mode(namespace); got != "slow" {
			t.Fatalf("in %s the mode is %q", namespace, got)
		}
		change(t, api, namespace)
	}
	if got := mode("a"); got != "slow" {
		t.Errorf("a recent answer was not reused: %q", got)
	}
	r.Forget("a")
	if got := mode("a"); got != "fast" {
		t.Errorf("after Forget the mode is %q", got)
	}
	if got := mode("b"); got != "slow" {
		t.Errorf("after Forget in another namespace the mode is %q", got)
	}
}

// TestForgetDuringARead: a read that began before Forget does not bring the old answer back.
func TestForgetDuringARead(t *testing.T) {
	api := fake.New(scheme.New(), settings("a", "slow"))
	r := New(api, slog.New(slog.DiscardHandler))
	read := func(between func()) string {
		t.Helper()
		cm, err := cached(t.Context(), r, key{"configmap", "a", "settings"}, func(ctx context.Context) (*corev1.ConfigMap, error) {
			cm, err := r.configMaps.Get(ctx, "a", "settings", metav1.GetOptions{})
			between()
			return cm, err
		})
		if err != nil {
			t.Fatal(err)
		}
		return cm.Data["mode"]
	}
	if got := read(func() {
		change(t, api, "a")
		r.Forget("a")
	}); got != "slow" {
		t.Fatalf("the mode is %q", got)
	}
	if got := read(func() {}); got != "fast" {
		t.Errorf("after Forget the mode is %q", got)
	}
}

func change(t *testing.T, api client.Interface, namespace string) {
	t.Helper()
	configMaps := client.Of[*corev1.ConfigMap](api)
	if _, err := configMaps.Update(t.Context(), settings(namespace, "fast"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}
