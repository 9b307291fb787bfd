package admissionregistration

import (
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// MutatingWebhooks defines the kind MutatingWebhooks.
func MutatingWebhooks() *kinds.Definition {
	type webhooks = *admissionregistrationv1.MutatingWebhookConfiguration
	v := newValidator()
	return kinds.Of[webhooks]{
		Level:    kinds.Full,
		Columns:  mutatingWebhookConfigurationColumns(),
		Default:  defaultMutatingWebhooks,
		Create:   func(c webhooks) { c.Generation = 1 },
		Validate: unreserved(v.mutatingWebhooks),
		Warnings: unheardMutating,
		Update: kinds.ChangeOf[webhooks]{
			Prepare: func(c, old webhooks) {
				if !apiequality.Semantic.DeepEqual(c.Webhooks, old.Webhooks) {
					c.Generation = old.Generation + 1
				}
			},
			Validate: v.mutatingWebhooksUpdate,
			Warnings: func(c, old webhooks) []string { return append(reservedName(c, old), unheardMutating(c)...) },
		},
		ConditionalUpdate: true,
		Obeyed:            true,
	}.Definition()
}

// defaultMutatingWebhooks sets the defaults of mutating webhooks.
func defaultMutatingWebhooks(c *admissionregistrationv1.MutatingWebhookConfiguration) {
	for i := range c.Webhooks {
		h := &c.Webhooks[i]
		defaultWebhook(&h.ClientConfig, h.Rules, &h.FailurePolicy, &h.MatchPolicy, &h.TimeoutSeconds, &h.NamespaceSelector, &h.ObjectSelector)
		kinds.Fill(&h.ReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)
	}
}

func mutatingWebhookConfigurationColumns() *columns.Layout {
	return columns.Of(webhookColumns(), func(c *admissionregistrationv1.MutatingWebhookConfiguration, now time.Time) []any {
		return []any{c.Name, int64(len(c.Webhooks)), columns.AgeOf(c, now)}
	})
}
