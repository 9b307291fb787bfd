package registry_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// TestTooLargeForEtcd checks that an object that is too large because of its managedFields is written without
// them, and what a client reads that writes one that is too large by itself, which costs it no quota.
func TestTooLargeForEtcd(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	keys := func(n int) map[string]string {
		data := map[string]string{}
		for i := range n {
			data[fmt.Sprintf("k%0252d", i)] = "" // as long as a key may be: few make a large object
		}
		return data
	}
	maps := resource[*corev1.ConfigMap](w)
	create := func(name string, data map[string]string, managed bool) {
		t.Helper()
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Data: data}
		made, err := maps.Create(ctx, "default", obj, metav1.CreateOptions{FieldManager: "me"})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := made.GetManagedFields(); (len(got) > 0) != managed || len(made.(*corev1.ConfigMap).Data) != len(data) {
			t.Errorf("%s: managed fields of %d writers, %d keys", name, len(got), len(made.(*corev1.ConfigMap).Data))
		}
	}
	create("small", keys(10), true)
	create("refused-by-etcd", keys(3_200), false)
	create("not-sent", keys(4_400), false)
	updated, err := maps.Update(ctx, "default", "small", func(current scheme.Object) (scheme.Object, error) {
		next := current.DeepCopyObject().(*corev1.ConfigMap)
		next.Data = keys(4_400)
		return next, nil
	}, registry.UpdateOptions{FieldManager: "me"})
	if err != nil || len(updated.(*corev1.ConfigMap).Data) != 4_400 {
		t.Errorf("the update failed: %v", err)
	}

	limit(w, "default", "few", amounts("pods", "5"))
	pods := resource[*corev1.Pod](w)
	for size, want := range map[int]string{
		1600 << 10: "etcdserver: request is too large: the object does not fit",
		2500 << 10: "rpc error: code = ResourceExhausted desc = trying to send message larger than max (",
	} {
		pod := newPod("large")
		pod.Spec.Containers[0].Args = []string{strings.Repeat("a", size)}
		_, err := pods.Create(ctx, "default", pod, metav1.CreateOptions{})
		var got apierrors.APIStatus
		if !errors.As(err, &got) || got.Status().Code != http.StatusInternalServerError || got.Status().Reason != metav1.StatusReasonUnknown || !strings.HasPrefix(got.Status().Message, want) {
			t.Errorf("%d bytes: got %.300v", size, err)
		}
	}
	eventually(t, "the quota has back what was reserved", func() bool {
		used := get[*corev1.ResourceQuota](w, "default", "few").Status.Used[corev1.ResourcePods]
		return used.IsZero()
	})
}
