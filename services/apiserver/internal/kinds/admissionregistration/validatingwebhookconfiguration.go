package admissionregistration

import (
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// None of the kinds of policies is full yet: nothing checks the types of expressions, which a policy's status
// would show.

// ValidatingWebhooks defines the kind ValidatingWebhooks.
func ValidatingWebhooks() *kinds.Definition {
	type webhooks = *admissionregistrationv1.ValidatingWebhookConfiguration
	v := newValidator()
	return kinds.Of[webhooks]{
		Level:    kinds.Full,
		Columns:  validatingWebhookConfigurationColumns(),
		Default:  defaultValidatingWebhooks,
		Create:   func(c webhooks) { c.Generation = 1 },
		Validate: unreserved(v.validatingWebhooks),
		Warnings: unheard,
		Update: kinds.ChangeOf[webhooks]{
			Prepare: func(c, old webhooks) {
				if !apiequality.Semantic.DeepEqual(c.Webhooks, old.Webhooks) {
					c.Generation = old.Generation + 1
				}
			},
			Validate: v.validatingWebhooksUpdate,
			Warnings: func(c, old webhooks) []string { return append(reservedName(c, old), unheard(c)...) },
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
