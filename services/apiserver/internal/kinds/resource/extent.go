package resource

import (
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/patterns"
)

// maxPatterns bounds the size of the regular expressions in the selectors of an object: about 10 MB of memory
// for whoever compiles them. Kubernetes has no such bound.
const maxPatterns = 200_000

// extentOfClaim returns an error if the selectors of all requests together have too large regular expressions.
func extentOfClaim(c *resourcev1.DeviceClaim, path *field.Path) field.ErrorList {
	var all [][]resourcev1.DeviceSelector
	for _, r := range c.Requests {
		if r.Exactly != nil {
			all = append(all, r.Exactly.Selectors)
		}
		for _, sub := range r.FirstAvailable {
			all = append(all, sub.Selectors)
		}
	}
	return extent(path, all...)
}

// extent returns an error if the selectors together have too large regular expressions.
func extent(path *field.Path, all ...[]resourcev1.DeviceSelector) field.ErrorList {
	size := 0
	for _, selectors := range all {
		for _, s := range selectors {
			if s.CEL == nil || len(s.CEL.Expression) > resourcev1.CELSelectorExpressionMaxLength {
				continue // It is refused as such.
			}
			if size += patterns.InExpression(s.CEL.Expression); size > maxPatterns {
				return field.ErrorList{field.Invalid(path, field.OmitValueType{},
					fmt.Sprintf("the regular expressions of all expressions must not compile to more than %d instructions together", maxPatterns))}
			}
		}
	}
	return nil
}
