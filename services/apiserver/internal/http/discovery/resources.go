package discovery

import (
	"slices"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
)

// verbs are the verbs of a stored kind, sorted as in Kubernetes.
var verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// Verbs returns the verbs of a kind itself, without its subresources.
func Verbs(kind *scheme.Kind) []string {
	switch {
	case kind.Observed:
		return []string{"get", "list"}
	case kind.Virtual:
		return []string{"create"}
	case kind.Kind == "Namespace":
		// Deleting a namespace deletes its content, so namespaces are deleted one by one.
		return slices.DeleteFunc(slices.Clone(verbs), func(verb string) bool { return verb == "deletecollection" })
	}
	return verbs
}

// subresource describes one subresource.
type subresource struct {
	name  string
	kind  schema.GroupVersionKind
	verbs []string
}

func subresources(kind *scheme.Kind) []subresource {
	var list []subresource
	for _, name := range kind.Subresources {
		s := subresource{name: name, kind: kind.GroupVersionKind, verbs: []string{"get", "patch", "update"}}
		switch name {
		case "binding":
			s.kind, s.verbs = kind.GroupVersion().WithKind("Binding"), []string{"create"}
		case "eviction":
			s.kind, s.verbs = policyv1.SchemeGroupVersion.WithKind("Eviction"), []string{"create"}
		case "log":
			s.verbs = []string{"get"}
		case "finalize":
			s.verbs = []string{"update"}
		case "scale":
			s.kind = autoscalingv1.SchemeGroupVersion.WithKind("Scale")
		case "token":
			s.kind, s.verbs = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest"), []string{"create"}
		}
		list = append(list, s)
	}
	return list
}

// resourceList builds the plain form.
func resourceList(gv schema.GroupVersion, kinds []*scheme.Kind) *metav1.APIResourceList {
	list := &metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(),
		APIResources: []metav1.APIResource{},
	}
	for _, kind := range kinds {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: kind.Resource, SingularName: kind.Singular, Namespaced: kind.Namespaced, Kind: kind.Kind,
			Verbs: Verbs(kind), ShortNames: kind.ShortNames, Categories: kind.Categories,
		})
		for _, s := range subresources(kind) {
			resource := metav1.APIResource{
				Name: kind.Resource + "/" + s.name, Namespaced: kind.Namespaced, Kind: s.kind.Kind, Verbs: s.verbs,
			}
			if s.kind.GroupVersion() != gv {
				resource.Group, resource.Version = s.kind.Group, s.kind.Version
			}
			list.APIResources = append(list.APIResources, resource)
		}
	}
	return list
}

// discoveries builds the aggregated form.
func discoveries(kinds []*scheme.Kind) []apidiscoveryv2.APIResourceDiscovery {
	var list []apidiscoveryv2.APIResourceDiscovery
	for _, kind := range kinds {
		resource := apidiscoveryv2.APIResourceDiscovery{
			Resource: kind.Resource, ResponseKind: responseKind(kind.GroupVersionKind), Scope: apidiscoveryv2.ScopeCluster,
			SingularResource: kind.Singular, Verbs: Verbs(kind), ShortNames: kind.ShortNames, Categories: kind.Categories,
		}
		if kind.Namespaced {
			resource.Scope = apidiscoveryv2.ScopeNamespace
		}
		for _, s := range subresources(kind) {
			resource.Subresources = append(resource.Subresources, apidiscoveryv2.APISubresourceDiscovery{
				Subresource: s.name, ResponseKind: responseKind(s.kind), Verbs: s.verbs,
			})
		}
		list = append(list, resource)
	}
	return list
}

func responseKind(gvk schema.GroupVersionKind) *metav1.GroupVersionKind {
	return &metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
}
