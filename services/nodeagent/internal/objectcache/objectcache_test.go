package objectcache

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

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

// TestTrustBundles: the bundles of a signer with some labels are read once, and anew for a new pod.
func TestTrustBundles(t *testing.T) {
	bundle := func(name, signer, tier string) *certificatesv1.ClusterTrustBundle {
		return &certificatesv1.ClusterTrustBundle{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": tier}},
			Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: signer},
		}
	}
	api := fake.New(scheme.New(), bundle("1", "s", "red"), bundle("2", "s", "blue"), bundle("3", "other", "red"))
	r := New(api, slog.New(slog.DiscardHandler))
	read := func(has labels.Set) (names string) {
		t.Helper()
		list, err := r.TrustBundles(t.Context(), "s", has.AsSelector())
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range list {
			names += b.Name
		}
		return names
	}
	if red, all := read(labels.Set{"tier": "red"}), read(nil); red != "1" || all != "12" {
		t.Errorf("read %q with the label, %q without", red, all)
	}
	bundles := client.Of[*certificatesv1.ClusterTrustBundle](api)
	if err := bundles.Delete(t.Context(), "", "1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := read(nil); got != "12" {
		t.Errorf("a recent answer was not reused: %q", got)
	}
	r.Forget("a")
	if got := read(nil); got != "2" {
		t.Errorf("a new pod gets %q", got)
	}
	if _, err := r.TrustBundle(t.Context(), "1"); !apierrors.IsNotFound(err) {
		t.Errorf("reading a bundle that is gone: %v", err)
	}
}
