package admissionregistration

import (
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

// TestRows checks that the columns and cells are those that kubectl shows against Kubernetes.
func TestRows(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "one", CreationTimestamp: kindtest.Ago(5 * time.Minute)}
	binding := []string{"Name", "PolicyName", "ParamRef", "Age"}
	params := func(ref *admissionregistrationv1.ParamRef) scheme.Object {
		return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p", ParamRef: ref},
		}
	}
	for _, tc := range []struct {
		name    string
		kind    *kinds.Definition
		obj     scheme.Object
		columns []string
		cells   []any
	}{
		{
			"mutating webhooks", MutatingWebhooks(), &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: make([]admissionregistrationv1.MutatingWebhook, 2)},
			[]string{"Name", "Webhooks", "Age"}, []any{"one", int64(2), "5m"},
		},
		{
			"validating webhooks", ValidatingWebhooks(), &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: make([]admissionregistrationv1.ValidatingWebhook, 3)},
			[]string{"Name", "Webhooks", "Age"}, []any{"one", int64(3), "5m"},
		},
		{
			"validating policy", ValidatingPolicy(), &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				Validations: make([]admissionregistrationv1.Validation, 2), ParamKind: &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
			}},
			[]string{"Name", "Validations", "ParamKind", "Age"}, []any{"one", int64(2), "v1/ConfigMap", "5m"},
		},
		{
			"mutating policy", MutatingPolicy(), &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				Mutations: make([]admissionregistrationv1.Mutation, 1),
			}},
			[]string{"Name", "Mutations", "ParamKind", "Age"}, []any{"one", int64(1), "<unset>", "5m"},
		},
		{"binding", ValidatingPolicyBinding(), params(nil), binding, []any{"one", "p", "<unset>", "5m"}},
		{"binding of a name", ValidatingPolicyBinding(), params(&admissionregistrationv1.ParamRef{Name: "x"}), binding, []any{"one", "p", "*/x", "5m"}},
		{"binding of an object", ValidatingPolicyBinding(), params(&admissionregistrationv1.ParamRef{Name: "x", Namespace: "ns"}), binding, []any{"one", "p", "ns/x", "5m"}},
		{
			"mutating binding", MutatingPolicyBinding(), &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{
				PolicyName: "p", ParamRef: &admissionregistrationv1.ParamRef{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
			}},
			binding, []any{"one", "p", "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}", "5m"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) { kindtest.Row(t, tc.kind, tc.obj, tc.columns, tc.cells) })
	}
}
