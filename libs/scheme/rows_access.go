package scheme

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// accessRows are the kinds of authentication and authorization, and the reviews about them, which
// are answered and never stored.
func accessRows() []Kind {
	return []Kind{
		{
			GroupVersionKind: authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"),
			Resource:         "selfsubjectreviews", Singular: "selfsubjectreview", Virtual: true,
			newObject: func() Object { return &authenticationv1.SelfSubjectReview{} },
		},
		{
			GroupVersionKind: authenticationv1.SchemeGroupVersion.WithKind("TokenReview"),
			Resource:         "tokenreviews", Singular: "tokenreview", Virtual: true,
			newObject: func() Object { return &authenticationv1.TokenReview{} },
		},
		{
			GroupVersionKind: authorizationv1.SchemeGroupVersion.WithKind("LocalSubjectAccessReview"),
			Resource:         "localsubjectaccessreviews", Singular: "localsubjectaccessreview", Namespaced: true, Virtual: true,
			newObject: func() Object { return &authorizationv1.LocalSubjectAccessReview{} },
		},
		{
			GroupVersionKind: authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"),
			Resource:         "selfsubjectaccessreviews", Singular: "selfsubjectaccessreview", Virtual: true,
			newObject: func() Object { return &authorizationv1.SelfSubjectAccessReview{} },
		},
		{
			GroupVersionKind: authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectRulesReview"),
			Resource:         "selfsubjectrulesreviews", Singular: "selfsubjectrulesreview", Virtual: true,
			newObject: func() Object { return &authorizationv1.SelfSubjectRulesReview{} },
		},
		{
			GroupVersionKind: authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"),
			Resource:         "subjectaccessreviews", Singular: "subjectaccessreview", Virtual: true,
			newObject: func() Object { return &authorizationv1.SubjectAccessReview{} },
		},
		{
			GroupVersionKind: certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"),
			Resource:         "certificatesigningrequests", Singular: "certificatesigningrequest", ShortNames: []string{"csr"},
			Subresources: []Subresource{part("approval"), status()}, StoragePrefix: "certificatesigningrequests",
			newObject: func() Object { return &certificatesv1.CertificateSigningRequest{} },
			newList:   func() runtime.Object { return &certificatesv1.CertificateSigningRequestList{} },
		},
		{
			GroupVersionKind: rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
			Resource:         "clusterroles", Singular: "clusterrole",
			StoragePrefix: "clusterroles",
			newObject:     func() Object { return &rbacv1.ClusterRole{} },
			newList:       func() runtime.Object { return &rbacv1.ClusterRoleList{} },
		},
		{
			GroupVersionKind: rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
			Resource:         "clusterrolebindings", Singular: "clusterrolebinding",
			StoragePrefix: "clusterrolebindings",
			newObject:     func() Object { return &rbacv1.ClusterRoleBinding{} },
			newList:       func() runtime.Object { return &rbacv1.ClusterRoleBindingList{} },
		},
		{
			GroupVersionKind: rbacv1.SchemeGroupVersion.WithKind("Role"),
			Resource:         "roles", Singular: "role",
			Namespaced: true, StoragePrefix: "roles",
			newObject: func() Object { return &rbacv1.Role{} },
			newList:   func() runtime.Object { return &rbacv1.RoleList{} },
		},
		{
			GroupVersionKind: rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
			Resource:         "rolebindings", Singular: "rolebinding",
			Namespaced: true, StoragePrefix: "rolebindings",
			newObject: func() Object { return &rbacv1.RoleBinding{} },
			newList:   func() runtime.Object { return &rbacv1.RoleBindingList{} },
		},
	}
}
