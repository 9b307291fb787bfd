package defaults

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const webhookSeconds = 10

// ValidatingWebhooks sets the defaults of validating webhooks.
func ValidatingWebhooks(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
	for i := range c.Webhooks {
		h := &c.Webhooks[i]
		webhook(&h.ClientConfig, h.Rules, &h.FailurePolicy, &h.MatchPolicy, &h.TimeoutSeconds, &h.NamespaceSelector, &h.ObjectSelector)
	}
}

// MutatingWebhooks sets the defaults of mutating webhooks.
func MutatingWebhooks(c *admissionregistrationv1.MutatingWebhookConfiguration) {
	for i := range c.Webhooks {
		h := &c.Webhooks[i]
		webhook(&h.ClientConfig, h.Rules, &h.FailurePolicy, &h.MatchPolicy, &h.TimeoutSeconds, &h.NamespaceSelector, &h.ObjectSelector)
		set(&h.ReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)
	}
}

func webhook(
	client *admissionregistrationv1.WebhookClientConfig, rules []admissionregistrationv1.RuleWithOperations,
	failure **admissionregistrationv1.FailurePolicyType, match **admissionregistrationv1.MatchPolicyType, seconds **int32,
	selectors ...**metav1.LabelSelector,
) {
	set(failure, admissionregistrationv1.Fail)
	set(match, admissionregistrationv1.Equivalent)
	set(seconds, int32(webhookSeconds))
	for _, selector := range selectors {
		set(selector, metav1.LabelSelector{})
	}
	if client.Service != nil {
		set(&client.Service.Port, int32(httpsPort))
	}
	for i := range rules {
		set(&rules[i].Scope, admissionregistrationv1.AllScopes)
	}
}

// ValidatingPolicy sets the defaults of a validating policy.
func ValidatingPolicy(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
	set(&p.Spec.FailurePolicy, admissionregistrationv1.Fail)
	matchResources(p.Spec.MatchConstraints)
}

// MutatingPolicy sets the defaults of a mutating policy.
func MutatingPolicy(p *admissionregistrationv1.MutatingAdmissionPolicy) {
	set(&p.Spec.FailurePolicy, admissionregistrationv1.Fail)
	matchResources(p.Spec.MatchConstraints)
}

// ValidatingPolicyBinding sets the defaults of a binding of a validating policy.
func ValidatingPolicyBinding(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	matchResources(b.Spec.MatchResources)
}

// MutatingPolicyBinding sets the defaults of a binding of a mutating policy.
func MutatingPolicyBinding(b *admissionregistrationv1.MutatingAdmissionPolicyBinding) {
	matchResources(b.Spec.MatchResources)
}

func matchResources(m *admissionregistrationv1.MatchResources) {
	if m == nil {
		return
	}
	set(&m.MatchPolicy, admissionregistrationv1.Equivalent)
	set(&m.NamespaceSelector, metav1.LabelSelector{})
	set(&m.ObjectSelector, metav1.LabelSelector{})
	for _, rules := range [][]admissionregistrationv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range rules {
			set(&rules[i].Scope, admissionregistrationv1.AllScopes)
		}
	}
}
