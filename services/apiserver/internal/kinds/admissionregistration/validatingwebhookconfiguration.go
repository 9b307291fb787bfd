package admissionregistration

import (
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// None of these kinds is full. Their CEL expressions are not compiled, and the apiserver does not
// check whether the author of a policy or a binding may read its parameters.

// ValidatingWebhooks defines the kind ValidatingWebhooks.
func ValidatingWebhooks() *kinds.Definition {
	type webhooks = *admissionregistrationv1.ValidatingWebhookConfiguration
	return kinds.Of[webhooks]{
		Columns:  validatingWebhookConfigurationColumns(),
		Default:  defaultValidatingWebhooks,
		Create:   func(c webhooks) { c.Generation = 1 },
		Validate: validateValidatingWebhooks,
		Update: kinds.ChangeOf[webhooks]{
			Prepare: func(c, old webhooks) {
				if !apiequality.Semantic.DeepEqual(c.Webhooks, old.Webhooks) {
					c.Generation = old.Generation + 1
				}
			},
			Validate: validateValidatingWebhooksUpdate,
		},
		ConditionalUpdate: true,
		Obeyed:            true,
	}.Definition()
}

// defaultValidatingWebhooks sets the defaults of validating webhooks.
func defaultValidatingWebhooks(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
	for i := range c.Webhooks {
		h := &c.Webhooks[i]
		defaultWebhook(&h.ClientConfig, h.Rules, &h.FailurePolicy, &h.MatchPolicy, &h.TimeoutSeconds, &h.NamespaceSelector, &h.ObjectSelector)
	}
}

func validatingWebhookConfigurationColumns() *columns.Layout {
	return columns.Of(webhookColumns(), func(c *admissionregistrationv1.ValidatingWebhookConfiguration, now time.Time) []any {
		return []any{c.Name, int64(len(c.Webhooks)), columns.AgeOf(c, now)}
	})
}
