package admission_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

// TestObjectsByType reads a pod of which the cache has an older version, and one that its lists
// lack.
func TestObjectsByType(t *testing.T) {
	w := admissiontest.New(admissiontest.Pod(func(p *corev1.Pod) { p.Spec.NodeName = "n" }))
	w.Stale(admissiontest.Pod())
	late := admissiontest.Pod(func(p *corev1.Pod) { p.Name = "late" })
	w.Put(late)
	w.Unlist(late)
	ctx, objects := t.Context(), w.Objects()
	if cached, err := admission.Get[*corev1.Pod](ctx, objects, "ns", "p"); err != nil || cached.Spec.NodeName != "" {
		t.Errorf("Get: got %v, %v, want what the cache has", cached, err)
	}
	if stored, err := admission.Live[*corev1.Pod](ctx, objects, "ns", "p"); err != nil || stored.Spec.NodeName != "n" {
		t.Errorf("Live: got %v, %v, want what etcd has", stored, err)
	}
	if cached, err := admission.List[*corev1.Pod](ctx, objects, "ns"); err != nil || len(cached) != 1 || cached[0].Name != "p" {
		t.Errorf("List: got %v, %v, want what the cache has", cached, err)
	}
	if stored, err := admission.LiveList[*corev1.Pod](ctx, objects, "ns"); err != nil || len(stored) != 2 {
		t.Errorf("LiveList: got %v, %v, want what etcd has", stored, err)
	}
	if none, err := admission.Get[*corev1.Pod](ctx, objects, "ns", "none"); none != nil || !apierrors.IsNotFound(err) {
		t.Errorf("Get: got %v, %v, want not found", none, err)
	}
}

func TestObjectOfAnotherType(t *testing.T) {
	failed := errors.New("failed")
	for _, tc := range []struct {
		name string
		obj  scheme.Object
		err  error
		want string
	}{
		{"the type", admissiontest.Pod(), nil, ""},
		{"another type", &corev1.Node{}, nil, "looking up a *v1.Pod: found a *v1.Node"},
		{"nothing", nil, nil, "looking up a *v1.Pod: found a <nil>"},
		{"an error", nil, failed, "failed"},
	} {
		got := ""
		if _, err := admission.As[*corev1.Pod](tc.obj, tc.err); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestForbidden(t *testing.T) {
	pods := scheme.For[*corev1.Pod](scheme.New())
	named := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", GenerateName: "p-"}}
	generated := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"}}
	why := errors.New("why")
	for _, tc := range []struct {
		name string
		req  *admission.Request
		err  error
		want string
	}{
		{"the name in the URL", &admission.Request{Kind: pods, Name: "url", Object: named}, why, `pods "url" is forbidden: why`},
		{"the object's name", &admission.Request{Kind: pods, Object: named}, why, `pods "p" is forbidden: why`},
		{"a name to generate", &admission.Request{Kind: pods, Object: generated}, why, `pods "p-" is forbidden: why`},
		{"no name", &admission.Request{Kind: pods, Object: &corev1.Pod{}}, why, `pods "Unknown" is forbidden: why`},
		{"no object", &admission.Request{Kind: pods}, why, `pods "Unknown" is forbidden: why`},
		{"another 403", &admission.Request{Kind: pods}, apierrors.NewForbidden(corev1.Resource("nodes"), "n", why), `nodes "n" is forbidden: why`},
		{"a 404", &admission.Request{Kind: pods}, apierrors.NewNotFound(corev1.Resource("nodes"), "n"), `pods "Unknown" is forbidden: nodes "n" not found`},
	} {
		err := admission.Forbidden(tc.req, tc.err)
		if !apierrors.IsForbidden(err) || err.Error() != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, err, tc.want)
		}
	}
}
