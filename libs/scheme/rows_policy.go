package scheme

import (
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// policyRows are the kinds with policies for pods.
func policyRows() []Kind {
	return []Kind{
		{
			GroupVersionKind: policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
			Resource:         "poddisruptionbudgets", Singular: "poddisruptionbudget", ShortNames: []string{"pdb"},
			Namespaced: true, Subresources: []Subresource{status()}, StoragePrefix: "poddisruptionbudgets",
			newObject: func() Object { return &policyv1.PodDisruptionBudget{} },
			newList:   func() runtime.Object { return &policyv1.PodDisruptionBudgetList{} },
		},
		{
			GroupVersionKind: schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"),
			Resource:         "priorityclasses", Singular: "priorityclass", ShortNames: []string{"pc"},
			StoragePrefix: "priorityclasses",
			newObject:     func() Object { return &schedulingv1.PriorityClass{} },
			newList:       func() runtime.Object { return &schedulingv1.PriorityClassList{} },
		},
		{
			GroupVersionKind: storagev1.SchemeGroupVersion.WithKind("StorageClass"),
			Resource:         "storageclasses", Singular: "storageclass", ShortNames: []string{"sc"},
			StoragePrefix: "storageclasses",
			newObject:     func() Object { return &storagev1.StorageClass{} },
			newList:       func() runtime.Object { return &storagev1.StorageClassList{} },
		},
	}
}
