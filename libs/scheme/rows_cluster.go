package scheme

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	nodev1 "k8s.io/api/node/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// clusterRows are the kinds that configure an apiserver and its nodes.
func clusterRows() []Kind {
	return []Kind{
		{
			GroupVersionKind: apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"),
			Resource:         "customresourcedefinitions", Singular: "customresourcedefinition",
			ShortNames: []string{"crd", "crds"}, Categories: []string{"api-extensions"},
			Subresources: []Subresource{status()}, StoragePrefix: "apiextensions.k8s.io/customresourcedefinitions",
			newObject: func() Object { return &apiextensionsv1.CustomResourceDefinition{} },
			newList:   func() runtime.Object { return &apiextensionsv1.CustomResourceDefinitionList{} },
			etcd:      definitions(),
		},
		{
			GroupVersionKind: storagemigrationv1.SchemeGroupVersion.WithKind("StorageVersionMigration"),
			Resource:         "storageversionmigrations", Singular: "storageversionmigration",
			Subresources: []Subresource{status()}, StoragePrefix: "storageversionmigrations",
			older:     "v1beta1",
			newObject: func() Object { return &storagemigrationv1.StorageVersionMigration{} },
			newList:   func() runtime.Object { return &storagemigrationv1.StorageVersionMigrationList{} },
		},
		{
			GroupVersionKind: nodev1.SchemeGroupVersion.WithKind("RuntimeClass"),
			Resource:         "runtimeclasses", Singular: "runtimeclass",
			StoragePrefix: "runtimeclasses",
			newObject:     func() Object { return &nodev1.RuntimeClass{} },
			newList:       func() runtime.Object { return &nodev1.RuntimeClassList{} },
		},
		{
			GroupVersionKind: admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicy"),
			Resource:         "mutatingadmissionpolicies", Singular: "mutatingadmissionpolicy", Categories: []string{"api-extensions"},
			StoragePrefix: "mutatingadmissionpolicies",
			newObject:     func() Object { return &admissionregistrationv1.MutatingAdmissionPolicy{} },
			newList:       func() runtime.Object { return &admissionregistrationv1.MutatingAdmissionPolicyList{} },
		},
		{
			GroupVersionKind: admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicyBinding"),
			Resource:         "mutatingadmissionpolicybindings", Singular: "mutatingadmissionpolicybinding", Categories: []string{"api-extensions"},
			StoragePrefix: "mutatingadmissionpolicybindings",
			newObject:     func() Object { return &admissionregistrationv1.MutatingAdmissionPolicyBinding{} },
			newList:       func() runtime.Object { return &admissionregistrationv1.MutatingAdmissionPolicyBindingList{} },
		},
		{
			GroupVersionKind: admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"),
			Resource:         "mutatingwebhookconfigurations", Singular: "mutatingwebhookconfiguration", Categories: []string{"api-extensions"},
			StoragePrefix: "mutatingwebhookconfigurations",
			newObject:     func() Object { return &admissionregistrationv1.MutatingWebhookConfiguration{} },
			newList:       func() runtime.Object { return &admissionregistrationv1.MutatingWebhookConfigurationList{} },
		},
		{
			GroupVersionKind: admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"),
			Resource:         "validatingadmissionpolicies", Singular: "validatingadmissionpolicy", Categories: []string{"api-extensions"},
			Subresources: []Subresource{status()}, StoragePrefix: "validatingadmissionpolicies",
			newObject: func() Object { return &admissionregistrationv1.ValidatingAdmissionPolicy{} },
			newList:   func() runtime.Object { return &admissionregistrationv1.ValidatingAdmissionPolicyList{} },
		},
		{
			GroupVersionKind: admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding"),
			Resource:         "validatingadmissionpolicybindings", Singular: "validatingadmissionpolicybinding", Categories: []string{"api-extensions"},
			StoragePrefix: "validatingadmissionpolicybindings",
			newObject:     func() Object { return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{} },
			newList:       func() runtime.Object { return &admissionregistrationv1.ValidatingAdmissionPolicyBindingList{} },
		},
		{
			GroupVersionKind: admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"),
			Resource:         "validatingwebhookconfigurations", Singular: "validatingwebhookconfiguration", Categories: []string{"api-extensions"},
			StoragePrefix: "validatingwebhookconfigurations",
			newObject:     func() Object { return &admissionregistrationv1.ValidatingWebhookConfiguration{} },
			newList:       func() runtime.Object { return &admissionregistrationv1.ValidatingWebhookConfigurationList{} },
		},
		{
			GroupVersionKind: flowcontrolv1.SchemeGroupVersion.WithKind("FlowSchema"),
			Resource:         "flowschemas", Singular: "flowschema",
			Subresources: []Subresource{status()}, StoragePrefix: "flowschemas",
			newObject: func() Object { return &flowcontrolv1.FlowSchema{} },
			newList:   func() runtime.Object { return &flowcontrolv1.FlowSchemaList{} },
		},
		{
			GroupVersionKind: flowcontrolv1.SchemeGroupVersion.WithKind("PriorityLevelConfiguration"),
			Resource:         "prioritylevelconfigurations", Singular: "prioritylevelconfiguration",
			Subresources: []Subresource{status()}, StoragePrefix: "prioritylevelconfigurations",
			newObject: func() Object { return &flowcontrolv1.PriorityLevelConfiguration{} },
			newList:   func() runtime.Object { return &flowcontrolv1.PriorityLevelConfigurationList{} },
		},
		{
			GroupVersionKind: certificatesv1.SchemeGroupVersion.WithKind("ClusterTrustBundle"),
			Resource:         "clustertrustbundles", Singular: "clustertrustbundle",
			StoragePrefix: "clustertrustbundles",
			older:         "v1beta1",
			newObject:     func() Object { return &certificatesv1.ClusterTrustBundle{} },
			newList:       func() runtime.Object { return &certificatesv1.ClusterTrustBundleList{} },
		},
		{
			GroupVersionKind: certificatesv1.SchemeGroupVersion.WithKind("PodCertificateRequest"),
			Resource:         "podcertificaterequests", Singular: "podcertificaterequest",
			Namespaced: true, Subresources: []Subresource{status()}, StoragePrefix: "podcertificaterequests",
			older:     "v1beta1",
			newObject: func() Object { return &certificatesv1.PodCertificateRequest{} },
			newList:   func() runtime.Object { return &certificatesv1.PodCertificateRequestList{} },
		},
		{
			GroupVersionKind: apiregistrationv1.SchemeGroupVersion.WithKind("APIService"),
			Resource:         "apiservices", Singular: "apiservice", Categories: []string{"api-extensions"},
			Subresources: []Subresource{status()}, StoragePrefix: "apiregistration.k8s.io/apiservices",
			etcd:      text(apiregistrationv1.SchemeGroupVersion),
			newObject: func() Object { return &apiregistrationv1.APIService{} },
			newList:   func() runtime.Object { return &apiregistrationv1.APIServiceList{} },
		},
	}
}
