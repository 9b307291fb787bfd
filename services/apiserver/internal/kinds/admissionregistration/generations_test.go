package admissionregistration

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

// TestGenerations checks for each kind what its generation counts.
func TestGenerations(t *testing.T) {
	t.Run("mutating webhooks", func(t *testing.T) {
		obj := kindtest.Sample[*admissionregistrationv1.MutatingWebhookConfiguration](t, MutatingWebhooks())
		changed := obj.DeepCopy()
		changed.Webhooks[0].ReinvocationPolicy = new(admissionregistrationv1.IfNeededReinvocationPolicy)
		kindtest.Generations(t, MutatingWebhooks(), obj, changed)
	})
	t.Run("validating webhooks", func(t *testing.T) {
		obj := kindtest.Sample[*admissionregistrationv1.ValidatingWebhookConfiguration](t, ValidatingWebhooks())
		changed := obj.DeepCopy()
		changed.Webhooks[0].TimeoutSeconds = new(int32(1))
		kindtest.Generations(t, ValidatingWebhooks(), obj, changed)
	})
	t.Run("mutating policy", func(t *testing.T) {
		obj := kindtest.Sample[*admissionregistrationv1.MutatingAdmissionPolicy](t, MutatingPolicy())
		changed := obj.DeepCopy()
		changed.Spec.ReinvocationPolicy = admissionregistrationv1.IfNeededReinvocationPolicy
		kindtest.Generations(t, MutatingPolicy(), obj, changed)
	})
	t.Run("validating policy", func(t *testing.T) {
		obj := kindtest.Sample[*admissionregistrationv1.ValidatingAdmissionPolicy](t, ValidatingPolicy())
		changed := obj.DeepCopy()
		changed.Spec.ParamKind = &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
		kindtest.Generations(t, ValidatingPolicy(), obj, changed)
	})
	t.Run("mutating binding", func(t *testing.T) {
		obj := kindtest.Sample[*admissionregistrationv1.MutatingAdmissionPolicyBinding](t, MutatingPolicyBinding())
		changed := obj.DeepCopy()
		changed.Spec.PolicyName = "another"
		kindtest.Generations(t, MutatingPolicyBinding(), obj, changed)
	})
	t.Run("validating binding", func(t *testing.T) {
		obj := kindtest.Sample[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, ValidatingPolicyBinding())
		changed := obj.DeepCopy()
		changed.Spec.PolicyName = "another"
		kindtest.Generations(t, ValidatingPolicyBinding(), obj, changed)
	})
}

// TestStatusOfUsers checks that a policy keeps its status when a user creates or changes it.
func TestStatusOfUsers(t *testing.T) {
	obj := kindtest.Sample[*admissionregistrationv1.ValidatingAdmissionPolicy](t, ValidatingPolicy())
	stored, sent := obj.DeepCopy(), obj.DeepCopy()
	stored.Status.ObservedGeneration, sent.Status.ObservedGeneration = 1, 2
	ValidatingPolicy().Update.Prepare(sent, stored)
	if got := sent.Status.ObservedGeneration; got != 1 {
		t.Errorf("an update observed generation %d, want 1", got)
	}
	ValidatingPolicy().PrepareForCreate(sent)
	if got := sent.Status.ObservedGeneration; got != 0 {
		t.Errorf("a new policy observed generation %d, want 0", got)
	}
}
