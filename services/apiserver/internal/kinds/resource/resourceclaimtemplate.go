package resource

import (
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// ResourceClaimTemplate defines the kind ResourceClaimTemplate.
func ResourceClaimTemplate() *kinds.Definition {
	return kinds.Of[*resourcev1.ResourceClaimTemplate]{
		Columns:       columns.Aged(),
		Level:         kinds.Generic,
		Default:       defaultResourceClaimTemplate,
		Validate:      validateClaimTemplate,
		Update:        kinds.ChangeOf[*resourcev1.ResourceClaimTemplate]{Validate: validateClaimTemplateUpdate},
		ReturnDeleted: true,
	}.Definition()
}

// defaultResourceClaimTemplate sets the defaults of a template of claims.
func defaultResourceClaimTemplate(t *resourcev1.ResourceClaimTemplate) {
	deviceClaim(&t.Spec.Spec.Devices)
}
