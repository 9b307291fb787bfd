package discovery

import (
	"crypto/sha256"
	"encoding/base64"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
)

// resourceList builds the plain form.
func resourceList(of *entry) *metav1.APIResourceList {
	gv := of.GroupVersion
	list := &metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(),
		APIResources: []metav1.APIResource{},
	}
	for _, kind := range of.kinds {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: kind.Resource, SingularName: kind.Singular, Namespaced: kind.Namespaced, Kind: kind.Kind,
			Verbs: kind.Verbs(), ShortNames: kind.ShortNames, Categories: kind.Categories, StorageVersionHash: storageHash(kind),
		})
		for _, s := range kind.Subresources {
			resource := metav1.APIResource{
				Name: kind.Resource + "/" + s.Name, Namespaced: kind.Namespaced, Kind: s.Kind.Kind, Verbs: s.Verbs,
			}
			if s.Kind.GroupVersion() != gv {
				resource.Group, resource.Version = s.Kind.Group, s.Kind.Version
			}
			list.APIResources = append(list.APIResources, resource)
		}
	}
	if of.more != nil {
		list.APIResources = append(list.APIResources, plain(gv, of.more.Resources)...)
	}
	return list
}

// plain returns the plain form of what another server said in the aggregated one.
func plain(gv schema.GroupVersion, resources []apidiscoveryv2.APIResourceDiscovery) []metav1.APIResource {
	var list []metav1.APIResource
	add := func(resource metav1.APIResource, kind *metav1.GroupVersionKind) {
		if kind != nil {
			resource.Kind = kind.Kind
			if kind.Group != gv.Group || kind.Version != gv.Version {
				resource.Group, resource.Version = kind.Group, kind.Version
			}
		}
		list = append(list, resource)
	}
	for _, one := range resources {
		namespaced := one.Scope == apidiscoveryv2.ScopeNamespace
		add(metav1.APIResource{
			Name: one.Resource, SingularName: one.SingularResource, Namespaced: namespaced, Verbs: one.Verbs,
			ShortNames: one.ShortNames, Categories: one.Categories,
		}, one.ResponseKind)
		for _, below := range one.Subresources {
			add(metav1.APIResource{Name: one.Resource + "/" + below.Subresource, Namespaced: namespaced, Verbs: below.Verbs}, below.ResponseKind)
		}
	}
	return list
}

// storageHash returns Kubernetes' hash of the version in which a kind is stored; empty if it is not stored.
// Clients that migrate stored objects compare it with the one that they saw before.
func storageHash(kind *scheme.Kind) string {
	if kind.Virtual {
		return ""
	}
	stored := kind.Encoded()
	sum := sha256.Sum256([]byte(stored.Group + "/" + stored.Version + "/" + stored.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

// discoveries builds the aggregated form.
func discoveries(kinds []*scheme.Kind) []apidiscoveryv2.APIResourceDiscovery {
	var list []apidiscoveryv2.APIResourceDiscovery
	for _, kind := range kinds {
		resource := apidiscoveryv2.APIResourceDiscovery{
			Resource: kind.Resource, ResponseKind: responseKind(kind.GroupVersionKind), Scope: apidiscoveryv2.ScopeCluster,
			SingularResource: kind.Singular, Verbs: kind.Verbs(), ShortNames: kind.ShortNames, Categories: kind.Categories,
		}
		if kind.Namespaced {
			resource.Scope = apidiscoveryv2.ScopeNamespace
		}
		for _, s := range kind.Subresources {
			resource.Subresources = append(resource.Subresources, apidiscoveryv2.APISubresourceDiscovery{
				Subresource: s.Name, ResponseKind: responseKind(s.Kind), Verbs: s.Verbs,
			})
		}
		list = append(list, resource)
	}
	return list
}

func responseKind(gvk schema.GroupVersionKind) *metav1.GroupVersionKind {
	return &metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
}
