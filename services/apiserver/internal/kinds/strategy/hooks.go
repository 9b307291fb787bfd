package strategy

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/defaults"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/hooks"
)

// None of these kinds is full. Their CEL expressions are not compiled, and the apiserver does not
// check whether the author of a policy or a binding may read its parameters.

func validatingWebhooks() *kinds.Definition {
	type webhooks = *admissionregistrationv1.ValidatingWebhookConfiguration
	return of[webhooks]{
		Default:  defaults.ValidatingWebhooks,
		Create:   func(c webhooks) { c.Generation = 1 },
		Validate: hooks.ValidatingWebhooks,
		Update: change[webhooks]{
			Prepare: func(c, old webhooks) {
				if !apiequality.Semantic.DeepEqual(c.Webhooks, old.Webhooks) {
					c.Generation = old.Generation + 1
				}
			},
			Validate: hooks.ValidatingWebhooksUpdate,
		},
		ConditionalUpdate: true,
	}.strategy()
}

func mutatingWebhooks() *kinds.Definition {
	type webhooks = *admissionregistrationv1.MutatingWebhookConfiguration
	return of[webhooks]{
		Default:  defaults.MutatingWebhooks,
		Create:   func(c webhooks) { c.Generation = 1 },
		Validate: hooks.MutatingWebhooks,
		Update: change[webhooks]{
			Prepare: func(c, old webhooks) {
				if !apiequality.Semantic.DeepEqual(c.Webhooks, old.Webhooks) {
					c.Generation = old.Generation + 1
				}
			},
			Validate: hooks.MutatingWebhooksUpdate,
		},
		ConditionalUpdate: true,
	}.strategy()
}

func validatingPolicy() *kinds.Definition {
	type policy = *admissionregistrationv1.ValidatingAdmissionPolicy
	specStatus := specStatusOf(func(p policy) (*admissionregistrationv1.ValidatingAdmissionPolicySpec, *admissionregistrationv1.ValidatingAdmissionPolicyStatus) {
		return &p.Spec, &p.Status
	})
	return of[policy]{
		Default:  defaults.ValidatingPolicy,
		Create:   specStatus.begin,
		Validate: hooks.ValidatingPolicy,
		Update:   change[policy]{Prepare: specStatus.keepStatus, Validate: hooks.ValidatingPolicyUpdate},
		Subresources: map[string]change[policy]{"status": {
			Prepare: func(p, old policy) {
				specStatus.keepSpec(p, old)
				keepMetadata(p, old)
			},
			Validate: hooks.ValidatingPolicyStatus,
		}},
		ConditionalUpdate: true,
	}.strategy()
}

func mutatingPolicy() *kinds.Definition {
	type policy = *admissionregistrationv1.MutatingAdmissionPolicy
	return of[policy]{
		Default:  defaults.MutatingPolicy,
		Create:   func(p policy) { p.Generation = 1 },
		Validate: hooks.MutatingPolicy,
		Update: change[policy]{
			Prepare: func(p, old policy) {
				if !apiequality.Semantic.DeepEqual(p.Spec, old.Spec) {
					p.Generation = old.Generation + 1
				}
			},
			Validate: hooks.MutatingPolicyUpdate,
		},
		ConditionalUpdate: true,
	}.strategy()
}

func validatingPolicyBinding() *kinds.Definition {
	type binding = *admissionregistrationv1.ValidatingAdmissionPolicyBinding
	return of[binding]{
		Default:  defaults.ValidatingPolicyBinding,
		Create:   func(b binding) { b.Generation = 1 },
		Validate: hooks.ValidatingPolicyBinding,
		Update: change[binding]{
			Prepare: func(b, old binding) {
				if !apiequality.Semantic.DeepEqual(b.Spec, old.Spec) {
					b.Generation = old.Generation + 1
				}
			},
			Validate: hooks.ValidatingPolicyBindingUpdate,
		},
		ConditionalUpdate: true,
	}.strategy()
}

func mutatingPolicyBinding() *kinds.Definition {
	type binding = *admissionregistrationv1.MutatingAdmissionPolicyBinding
	return of[binding]{
		Default:  defaults.MutatingPolicyBinding,
		Create:   func(b binding) { b.Generation = 1 },
		Validate: hooks.MutatingPolicyBinding,
		Update: change[binding]{
			Prepare: func(b, old binding) {
				if !apiequality.Semantic.DeepEqual(b.Spec, old.Spec) {
					b.Generation = old.Generation + 1
				}
			},
			Validate: hooks.MutatingPolicyBindingUpdate,
		},
		ConditionalUpdate: true,
	}.strategy()
}
