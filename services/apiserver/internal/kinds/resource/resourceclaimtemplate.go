package resource

import (
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// ResourceClaimTemplate defines the kind ResourceClaimTemplate.
func ResourceClaimTemplate() *kinds.Definition {
	type template = *resourcev1.ResourceClaimTemplate
	return kinds.Of[template]{
		Columns:  columns.Aged(),
		Level:    kinds.Generic,
		Default:  defaultResourceClaimTemplate,
		Create:   func(t template) { withoutDerived(&t.Spec.Spec.Devices, nil) },
		Validate: validateClaimTemplate,
		Update: kinds.ChangeOf[template]{
			Prepare:  func(t, old template) { withoutDerived(&t.Spec.Spec.Devices, &old.Spec.Spec.Devices) },
			Validate: validateClaimTemplateUpdate,
		},
		ReturnDeleted: true,
	}.Definition()
}

// defaultResourceClaimTemplate sets the defaults of a template of claims.
func defaultResourceClaimTemplate(t *resourcev1.ResourceClaimTemplate) {
	deviceClaim(&t.Spec.Spec.Devices)
}
