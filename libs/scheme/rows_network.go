package scheme

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// networkRows are the kinds that determine how pods are reached.
func networkRows() []Kind {
	return []Kind{
		{
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Endpoints"),
			Resource:         "endpoints", Singular: "endpoints", ShortNames: []string{"ep"},
			Namespaced: true, StoragePrefix: "services/endpoints",
			Deprecated: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
			newObject:  func() Object { return &corev1.Endpoints{} },
			newList:    func() runtime.Object { return &corev1.EndpointsList{} },
		},
		{
			GroupVersionKind: networkingv1.SchemeGroupVersion.WithKind("Ingress"),
			Resource:         "ingresses", Singular: "ingress", ShortNames: []string{"ing"},
			Namespaced: true, Subresources: []Subresource{status()}, StoragePrefix: "ingress",
			newObject: func() Object { return &networkingv1.Ingress{} },
			newList:   func() runtime.Object { return &networkingv1.IngressList{} },
		},
		{
			GroupVersionKind: networkingv1.SchemeGroupVersion.WithKind("IngressClass"),
			Resource:         "ingressclasses", Singular: "ingressclass",
			StoragePrefix: "ingressclasses",
			newObject:     func() Object { return &networkingv1.IngressClass{} },
			newList:       func() runtime.Object { return &networkingv1.IngressClassList{} },
		},
		{
			GroupVersionKind: networkingv1.SchemeGroupVersion.WithKind("IPAddress"),
			Resource:         "ipaddresses", Singular: "ipaddress", ShortNames: []string{"ip"},
			StoragePrefix: "ipaddresses",
			newObject:     func() Object { return &networkingv1.IPAddress{} },
			newList:       func() runtime.Object { return &networkingv1.IPAddressList{} },
		},
		{
			GroupVersionKind: networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
			Resource:         "networkpolicies", Singular: "networkpolicy", ShortNames: []string{"netpol"},
			Namespaced: true, StoragePrefix: "networkpolicies",
			newObject: func() Object { return &networkingv1.NetworkPolicy{} },
			newList:   func() runtime.Object { return &networkingv1.NetworkPolicyList{} },
		},
		{
			GroupVersionKind: networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"),
			Resource:         "servicecidrs", Singular: "servicecidr",
			Subresources: []Subresource{status()}, StoragePrefix: "servicecidrs",
			newObject: func() Object { return &networkingv1.ServiceCIDR{} },
			newList:   func() runtime.Object { return &networkingv1.ServiceCIDRList{} },
		},
	}
}
