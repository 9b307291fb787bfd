package custom

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// pruned is to, and removes what the schema of the version does not have: neither is it stored nor is it
// returned.
func (c *conversions) pruned(version schema.GroupVersion) kinds.Conversion {
	convert, rules := c.to(version), c.versions[version.Version]
	return func(objs ...scheme.Object) ([]scheme.Object, error) {
		converted, err := convert(objs...)
		if err != nil {
			return nil, err
		}
		for _, obj := range converted {
			if _, err := rules.Prune(content(obj), false, kinds.Pruning{}); err != nil {
				return nil, fmt.Errorf("pruning %s, which was converted to %s: %w", obj.GetName(), version, err)
			}
		}
		return converted, nil
	}
}
