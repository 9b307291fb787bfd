// Package customkinds makes the kinds that CustomResourceDefinitions define.
package customkinds

import (
	"fmt"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"

	"github.com/garboard/garboard/libs/scheme"
)

// Kinds returns the kinds of the versions that a CustomResourceDefinition serves, and of the one that
// etcd holds, in the definition's order. They have the names that the definition's status has accepted. It is
// an error if no version is stored.
func Kinds(of *apiextensionsv1.CustomResourceDefinition) ([]*scheme.Kind, error) {
	stored, err := StorageVersion(of)
	if err != nil {
		return nil, err
	}
	var kinds []*scheme.Kind
	for i := range of.Spec.Versions {
		if one := &of.Spec.Versions[i]; one.Served || one.Storage {
			kinds = append(kinds, Kind(of, one, stored))
		}
	}
	return kinds, nil
}

// StorageVersion returns the version in which etcd holds the objects of a CustomResourceDefinition. It is an
// error if there is none.
func StorageVersion(of *apiextensionsv1.CustomResourceDefinition) (string, error) {
	for i := range of.Spec.Versions {
		if of.Spec.Versions[i].Storage {
			return of.Spec.Versions[i].Name, nil
		}
	}
	return "", fmt.Errorf("reading %s: no version is stored", of.Name)
}

// Kind returns the kind of one version of a CustomResourceDefinition whose stored version is given.
func Kind(of *apiextensionsv1.CustomResourceDefinition, one *apiextensionsv1.CustomResourceDefinitionVersion, stored string) *scheme.Kind {
	names := &of.Status.AcceptedNames
	gk := schema.GroupKind{Group: of.Spec.Group, Kind: names.Kind}
	kind := &scheme.Kind{
		GroupVersionKind: gk.WithVersion(one.Name), Storage: gk.WithVersion(stored), Custom: true,
		List: names.ListKind, Resource: names.Plural, Singular: names.Singular, ShortNames: names.ShortNames, Categories: names.Categories,
		Namespaced: of.Spec.Scope == apiextensionsv1.NamespaceScoped, StoragePrefix: of.Spec.Group + "/" + names.Plural,
	}
	kind.Unserved = !one.Served
	for i := range of.Spec.Versions {
		if name := of.Spec.Versions[i].Name; name != stored {
			kind.StoredVersions = append(kind.StoredVersions, name)
		}
	}
	verbs := []string{"get", "patch", "update"}
	if parts := one.Subresources; parts != nil && parts.Status != nil {
		kind.Subresources = append(kind.Subresources, scheme.Subresource{Name: "status", Kind: kind.GroupVersionKind, Verbs: verbs})
	}
	if parts := one.Subresources; parts != nil && parts.Scale != nil {
		kind.Subresources = append(kind.Subresources, scheme.Subresource{
			Name: "scale", Kind: autoscalingv1.SchemeGroupVersion.WithKind("Scale"), Verbs: verbs,
		})
	}
	if one.Deprecated {
		kind.Deprecated = deprecation(of, one.Name)
		if one.DeprecationWarning != nil {
			kind.Deprecated = *one.DeprecationWarning
		}
	}
	return kind
}

// deprecation returns Kubernetes' warning of a deprecated version. It recommends the newest one that is not.
func deprecation(of *apiextensionsv1.CustomResourceDefinition, name string) string {
	text := fmt.Sprintf("%s/%s %s is deprecated", of.Spec.Group, name, of.Spec.Names.Kind)
	newest := name
	for i := range of.Spec.Versions {
		other := &of.Spec.Versions[i]
		if other.Served && !other.Deprecated && apiversion.CompareKubeAwareVersionStrings(newest, other.Name) < 0 {
			newest = other.Name
		}
	}
	if newest == name {
		return text
	}
	return text + fmt.Sprintf("; use %s/%s %s", of.Spec.Group, newest, of.Spec.Names.Kind)
}

// Readable returns, for each resource that etcd holds, the kind by which clients ask for its objects: the
// stored one or, if that is not served, the first of its other versions. It leaves out a resource of which no
// version is served.
func Readable(kinds []*scheme.Kind) []*scheme.Kind {
	var readable []*scheme.Kind
	for _, kind := range kinds {
		switch {
		case !kind.Stored():
		case !kind.Unserved:
			readable = append(readable, kind)
		default:
			other := slices.IndexFunc(kinds, func(other *scheme.Kind) bool {
				return !other.Virtual && !other.Unserved && other.Storage == kind.GroupVersionKind
			})
			if other >= 0 {
				readable = append(readable, kinds[other])
			}
		}
	}
	return readable
}
