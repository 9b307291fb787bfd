package admissionregistration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// TestStaticNames checks that no object of the API gets the name of a configuration from files, and that
// the owner of an older one is warned.
func TestStaticNames(t *testing.T) {
	const text = `names ending with ".static.k8s.io" are reserved for static manifest-based configurations and cannot be managed via the API`
	named := metav1.ObjectMeta{Name: "a.static.k8s.io", ResourceVersion: "1"}
	validating, mutating, hooks := newPolicy(), newMutatingPolicy(), newWebhooks("a.example.com")
	validating.ObjectMeta, mutating.ObjectMeta, hooks.ObjectMeta = named, named, named
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: named, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: "a", ValidationActions: []admissionregistrationv1.ValidationAction{"Deny"},
	}}
	other := &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: named, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "a"}}
	for _, tc := range []struct {
		kind *kinds.Definition
		obj  scheme.Object
	}{
		{ValidatingPolicy(), validating}, {MutatingPolicy(), mutating}, {MutatingWebhooks(), hooks}, {ValidatingWebhooks(), asValidating(hooks)},
		{ValidatingPolicyBinding(), binding}, {MutatingPolicyBinding(), other},
	} {
		errs := tc.kind.Validate(tc.obj)
		if len(errs) != 1 || errs[0].Error() != `metadata.name: Invalid value: "a.static.k8s.io": `+text {
			t.Errorf("%T: got %v", tc.obj, errs)
		}
		if errs := tc.kind.Update.Validate(tc.obj, tc.obj); len(errs) > 0 {
			t.Errorf("%T: an update is refused: %v", tc.obj, errs)
		}
		if diff := cmp.Diff([]string{"metadata.name: " + text}, tc.kind.Update.Warnings(tc.obj, tc.obj)); diff != "" {
			t.Errorf("%T: the warnings (-want +got):\n%s", tc.obj, diff)
		}
	}
}

// TestExcludedResources checks the warnings of rules that have no effect.
func TestExcludedResources(t *testing.T) {
	c := newWebhooks("a.example.com", "b.example.com")
	c.Webhooks[1].Rules = []admissionregistrationv1.RuleWithOperations{newRule(), newRule()}
	c.Webhooks[1].Rules[0].APIGroups, c.Webhooks[1].Rules[0].Resources = []string{"*"}, []string{"tokenreviews"}
	c.Webhooks[1].Rules[1].APIGroups = []string{"authentication.k8s.io", "", "authentication.k8s.io"}
	c.Webhooks[1].Rules[1].Resources = []string{"tokenreviews", "pods", "tokenreviews/status"}
	want := []string{"webhooks[1].rules[1]: tokenreviews.authentication.k8s.io is excluded from admission webhooks; this rule will have no effect"}
	if diff := cmp.Diff(want, MutatingWebhooks().Warnings(c)); diff != "" {
		t.Errorf("the warnings (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, ValidatingWebhooks().Update.Warnings(asValidating(c), asValidating(c))); diff != "" {
		t.Errorf("the warnings of an update (-want +got):\n%s", diff)
	}
}
