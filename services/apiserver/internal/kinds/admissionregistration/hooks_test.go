package admissionregistration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWebhookDefaults checks every default of a webhook, and that none replaces what is set.
func TestWebhookDefaults(t *testing.T) {
	rules := func(scopes ...*admissionregistrationv1.ScopeType) []admissionregistrationv1.RuleWithOperations {
		var list []admissionregistrationv1.RuleWithOperations
		for _, scope := range scopes {
			list = append(list, admissionregistrationv1.RuleWithOperations{Rule: admissionregistrationv1.Rule{Scope: scope}})
		}
		return list
	}
	service := func(port *int32) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Port: port}}
	}
	full := admissionregistrationv1.MutatingWebhook{
		ClientConfig: service(new(int32(444))), Rules: rules(new(admissionregistrationv1.ClusterScope)),
		FailurePolicy: new(admissionregistrationv1.Ignore), MatchPolicy: new(admissionregistrationv1.Exact), TimeoutSeconds: new(int32(5)),
		NamespaceSelector:  &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		ObjectSelector:     &metav1.LabelSelector{MatchLabels: map[string]string{"c": "d"}},
		ReinvocationPolicy: new(admissionregistrationv1.IfNeededReinvocationPolicy),
	}
	filled := admissionregistrationv1.MutatingWebhook{
		ClientConfig:  service(new(int32(443))),
		Rules:         rules(new(admissionregistrationv1.AllScopes), new(admissionregistrationv1.NamespacedScope)),
		FailurePolicy: new(admissionregistrationv1.Fail), MatchPolicy: new(admissionregistrationv1.Equivalent), TimeoutSeconds: new(int32(10)),
		NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
		ReinvocationPolicy: new(admissionregistrationv1.NeverReinvocationPolicy),
	}
	c := &admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: []admissionregistrationv1.MutatingWebhook{
		{ClientConfig: service(nil), Rules: rules(nil, new(admissionregistrationv1.NamespacedScope))}, *full.DeepCopy(),
	}}
	other := asValidating(c)
	defaultMutatingWebhooks(c)
	want := &admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: []admissionregistrationv1.MutatingWebhook{filled, full}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("mutating webhooks (-want +got):\n%s", diff)
	}
	defaultValidatingWebhooks(other)
	if diff := cmp.Diff(asValidating(want), other); diff != "" {
		t.Errorf("validating webhooks (-want +got):\n%s", diff)
	}
}

// TestPolicyDefaults checks the defaults of policies and of their bindings, which may match less.
func TestPolicyDefaults(t *testing.T) {
	named := func(scope *admissionregistrationv1.ScopeType) []admissionregistrationv1.NamedRuleWithOperations {
		return []admissionregistrationv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{Rule: admissionregistrationv1.Rule{Scope: scope}},
		}}
	}
	all := new(admissionregistrationv1.AllScopes)
	given := admissionregistrationv1.MatchResources{ResourceRules: named(nil), ExcludeResourceRules: named(nil)}
	want := &admissionregistrationv1.MatchResources{
		ResourceRules: named(all), ExcludeResourceRules: named(all), MatchPolicy: new(admissionregistrationv1.Equivalent),
		NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
	}
	mutating, validating := &admissionregistrationv1.MutatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicy{}
	mutatingBinding, validatingBinding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	for _, match := range []*admissionregistrationv1.MatchResources{nil, &given} {
		mutating.Spec.MatchConstraints, validating.Spec.MatchConstraints = match.DeepCopy(), match.DeepCopy()
		mutatingBinding.Spec.MatchResources, validatingBinding.Spec.MatchResources = match.DeepCopy(), match.DeepCopy()
		defaultMutatingPolicy(mutating)
		defaultValidatingPolicy(validating)
		defaultMutatingPolicyBinding(mutatingBinding)
		defaultValidatingPolicyBinding(validatingBinding)
		expected := want
		if match == nil {
			expected = nil
		}
		for name, got := range map[string]*admissionregistrationv1.MatchResources{
			"mutating policy": mutating.Spec.MatchConstraints, "validating policy": validating.Spec.MatchConstraints,
			"mutating binding": mutatingBinding.Spec.MatchResources, "validating binding": validatingBinding.Spec.MatchResources,
		} {
			if diff := cmp.Diff(expected, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
	if *mutating.Spec.FailurePolicy != admissionregistrationv1.Fail || *validating.Spec.FailurePolicy != admissionregistrationv1.Fail {
		t.Errorf("failure policies: got %s and %s", *mutating.Spec.FailurePolicy, *validating.Spec.FailurePolicy)
	}
}
