package registry_test

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// TestObeyedWrites checks that the watch cache has a policy's write once the write returns.
func TestObeyedWrites(t *testing.T) {
	w := newWorld(t)
	kind := scheme.For[*admissionregistrationv1.MutatingAdmissionPolicyBinding](w.Table)
	resource := w.Resource(kind)
	var have feed.Version
	cached := func(what string, want int) {
		t.Helper()
		objs, now, changed := w.Feeds.Of(kind).CachedSince(fabric.View{}, have)
		if !changed || len(objs) != want {
			t.Fatalf("after %s: the cache has %d objects, changed %v, want %d", what, len(objs), changed, want)
		}
		have = now
	}
	for range 20 {
		create(w, "", &admissionregistrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "p"},
		})
		cached("a create", 1)
		_, err := resource.Update(t.Context(), "", "b", func(current scheme.Object) (scheme.Object, error) {
			changed := current.DeepCopyObject().(*admissionregistrationv1.MutatingAdmissionPolicyBinding)
			changed.Spec.PolicyName = "q"
			return changed, nil
		}, registry.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		cached("an update", 1)
		if _, _, err := resource.Delete(t.Context(), "", "b", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		cached("a delete", 0)
	}
}
