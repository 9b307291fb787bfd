package podgroupprotection

import (
	"slices"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPodGroupProtection(t *testing.T) {
	const own = "example.com/own"
	for _, tc := range []struct {
		name, group, resource string
		verb                  admission.Verb
		subresource           string
		has                   []string
		gate                  bool
		want                  []string
	}{
		{"without the gate", "scheduling.k8s.io", "podgroups", admission.Create, "", nil, false, nil},
		{"a new group", "scheduling.k8s.io", "podgroups", admission.Create, "", []string{own}, true, []string{own, finalizer}},
		{"a group with the finalizer", "scheduling.k8s.io", "podgroups", admission.Create, "", []string{finalizer, own}, true, []string{finalizer, own}},
		{"an update", "scheduling.k8s.io", "podgroups", admission.Update, "", nil, true, nil},
		{"a subresource", "scheduling.k8s.io", "podgroups", admission.Create, "status", nil, true, nil},
		{"another kind", "scheduling.k8s.io", "priorityclasses", admission.Create, "", nil, true, nil},
		{"another group", "example.com", "podgroups", admission.Create, "", nil, true, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obj := &unstructured.Unstructured{Object: map[string]any{}}
			obj.SetFinalizers(tc.has)
			kind := &scheme.Kind{GroupVersionKind: schema.GroupVersionKind{Group: tc.group, Version: "v1beta1", Kind: "X"}, Resource: tc.resource}
			req := &admission.Request{Verb: tc.verb, Kind: kind, Namespace: "ns", Name: "g", Subresource: tc.subresource, Object: obj}
			if tc.verb == admission.Update {
				req.Old = obj
			}
			if _, err := admissiontest.New().Admit(t, req, Plugin(tc.gate)); err != nil {
				t.Fatal(err)
			}
			if got := obj.GetFinalizers(); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
