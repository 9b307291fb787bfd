package custom

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/custom/conversion"
)

// conversions are the ways between the versions of one definition.
type conversions struct {
	by       *conversion.Converter
	versions map[string]*rules
}

// to returns the conversion of objects to a version.
func (c *conversions) to(version schema.GroupVersion) kinds.Conversion {
	return func(objs ...scheme.Object) ([]scheme.Object, error) {
		all := make([]*unstructured.Unstructured, len(objs))
		for i, obj := range objs {
			all[i] = content(obj)
		}
		made, err := c.by.Convert(all, version)
		if err != nil {
			return nil, err
		}
		converted := make([]scheme.Object, len(made))
		for i, u := range made {
			converted[i] = u
		}
		return converted, nil
	}
}

// restore completes an object as etcd holds it, which may be of any version, as one of the stored version. As in
// Kubernetes, it gets the defaults of the version in which it is, and none of that to which it is converted.
func (c *conversions) restore(u *unstructured.Unstructured, stored schema.GroupVersion) error {
	version := u.GroupVersionKind().Version
	if r := c.versions[version]; r != nil {
		// What is left of metadata that cannot be read is for its reader to see.
		_, _ = r.Prune(u, true, kinds.Pruning{})
		r.Default(u)
	}
	if version != stored.Version {
		converted, err := c.by.Convert([]*unstructured.Unstructured{u}, stored)
		if err != nil {
			return err
		}
		u.Object = converted[0].Object
	}
	return nil
}
