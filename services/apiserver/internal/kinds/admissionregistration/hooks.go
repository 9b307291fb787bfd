package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// servicePort is the default port of the service that runs a webhook.
const servicePort = 443

const webhookSeconds = 10

func defaultWebhook(
	client *admissionregistrationv1.WebhookClientConfig, rules []admissionregistrationv1.RuleWithOperations,
	failure **admissionregistrationv1.FailurePolicyType, match **admissionregistrationv1.MatchPolicyType, seconds **int32,
	selectors ...**metav1.LabelSelector,
) {
	kinds.Fill(failure, admissionregistrationv1.Fail)
	kinds.Fill(match, admissionregistrationv1.Equivalent)
	kinds.Fill(seconds, int32(webhookSeconds))
	for _, selector := range selectors {
		kinds.Fill(selector, metav1.LabelSelector{})
	}
	if client.Service != nil {
		kinds.Fill(&client.Service.Port, int32(servicePort))
	}
	for i := range rules {
		kinds.Fill(&rules[i].Scope, admissionregistrationv1.AllScopes)
	}
}

func defaultMatchResources(m *admissionregistrationv1.MatchResources) {
	if m == nil {
		return
	}
	kinds.Fill(&m.MatchPolicy, admissionregistrationv1.Equivalent)
	kinds.Fill(&m.NamespaceSelector, metav1.LabelSelector{})
	kinds.Fill(&m.ObjectSelector, metav1.LabelSelector{})
	for _, rules := range [][]admissionregistrationv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for i := range rules {
			kinds.Fill(&rules[i].Scope, admissionregistrationv1.AllScopes)
		}
	}
}
