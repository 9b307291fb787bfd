package scheme

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// rows returns every served kind in the order of discovery: by group, newest version first, and by
// name.
func rows() []Kind {
	all := slices.Concat(workloadRows(), appsRows(), networkRows(), storageRows(), accessRows(), policyRows(), clusterRows(), observedRows())
	slices.SortStableFunc(all, func(a, b Kind) int {
		return cmp.Or(
			cmp.Compare(slices.Index(groups(), a.Group), slices.Index(groups(), b.Group)),
			-version.CompareKubeAwareVersionStrings(a.Version, b.Version),
			cmp.Compare(a.Resource, b.Resource))
	})
	return all
}

// groups returns the served groups by Kubernetes' priorities, which decide which group kubectl
// means by the bare name of a resource.
func groups() []string {
	return []string{
		"", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io",
		"autoscaling", "batch", "certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io",
		"storage.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io", "coordination.k8s.io",
		"node.k8s.io", "discovery.k8s.io", "resource.k8s.io", "flowcontrol.apiserver.k8s.io", "storagemigration.k8s.io",
		"metrics.k8s.io",
	}
}

// workloadRows are the kinds of the groups core, apps and events.k8s.io.
func workloadRows() []Kind {
	return []Kind{
		{
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Binding"),
			Resource:         "bindings", Singular: "binding", Namespaced: true, Virtual: true,
			newObject: func() Object { return &corev1.Binding{} },
		},
		{
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ComponentStatus"),
			Resource:         "componentstatuses", Singular: "componentstatus", ShortNames: []string{"cs"},
			Virtual: true, Observed: true, Deprecated: "v1 ComponentStatus is deprecated in v1.19+",
			newObject: func() Object { return &corev1.ComponentStatus{} },
			newList:   func() runtime.Object { return &corev1.ComponentStatusList{} },
		},
		{
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap"),
			Resource:         "configmaps", Singular: "configmap", ShortNames: []string{"cm"},
			Namespaced: true, StoragePrefix: "configmaps",
			newObject: func() Object { return &corev1.ConfigMap{} },
			newList:   func() runtime.Object { return &corev1.ConfigMapList{} },
		},
		{
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Event"),
			Resource:         "events", Singular: "event", ShortNames: []string{"ev"},
			Namespaced: true, StoragePrefix: "events",
			newObject: func() Object { return &corev1.Event{} },
			newList:   func() runtime.Object { return &corev1.EventList{} },
		},
		{
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("LimitRange"),
			Resource:         "limitranges", Singular: "limitrange", ShortNames: []string{"limits"},
			Namespaced: true, StoragePrefix: "limitranges",
			newObject: func() Object { return &corev1.LimitRange{} },
			newList:   func() runtime.Object { return &corev1.LimitRangeList{} },
		},
		{
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Namespace"),
			Resource:         "namespaces", Singular: "namespace", ShortNames: []string{"ns"},
			DeletedOneByOne: true, Subresources: []Subresource{finalize(), status()}, StoragePrefix: "namespaces",
			newObject: func() Object { return &corev1.Namespace{} },
			newList:   func() runtime.Object { return &corev1.NamespaceList{} },
		},
		{
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Node"),
			Resource:         "nodes", Singular: "node", ShortNames: []string{"no"},
			Subresources: []Subresource{proxy("NodeProxyOptions"), status()}, StoragePrefix: "minions",
			newObject: func() Object { return &corev1.Node{} },
			newList:   func() runtime.Object { return &corev1.NodeList{} },
		},
		{
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
			Resource:         "persistentvolumeclaims", Singular: "persistentvolumeclaim", ShortNames: []string{"pvc"},
			Namespaced: true, Subresources: []Subresource{status()}, StoragePrefix: "persistentvolumeclaims",
			newObject: func() Object { return &corev1.PersistentVolumeClaim{} },
			newList:   func() runtime.Object { return &corev1.PersistentVolumeClaimList{} },
		},
		{
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Pod"),
			Resource:         "pods", Singular: "pod", ShortNames: []string{"po"}, Categories: []string{"all"},
			Namespaced: true, StoragePrefix: "pods", Scope: podNode,
			Subresources: []Subresource{
				connection("attach", "PodAttachOptions"), binding(), part("ephemeralcontainers"), eviction(),
				connection("exec", "PodExecOptions"), logs(), connection("portforward", "PodPortForwardOptions"), proxy("PodProxyOptions"),
				part("resize"), status(),
			},
			newObject: func() Object { return &corev1.Pod{} },
			newList:   func() runtime.Object { return &corev1.PodList{} },
		},
		{
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ResourceQuota"),
			Resource:         "resourcequotas", Singular: "resourcequota", ShortNames: []string{"quota"},
			Namespaced: true, Subresources: []Subresource{status()}, StoragePrefix: "resourcequotas",
			newObject: func() Object { return &corev1.ResourceQuota{} },
			newList:   func() runtime.Object { return &corev1.ResourceQuotaList{} },
		},
		{
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Secret"),
			Resource:         "secrets", Singular: "secret",
			Namespaced: true, StoragePrefix: "secrets", Confidential: true,
			newObject: func() Object { return &corev1.Secret{} },
			newList:   func() runtime.Object { return &corev1.SecretList{} },
		},
		{
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Service"),
			Resource:         "services", Singular: "service", ShortNames: []string{"svc"}, Categories: []string{"all"},
			Namespaced: true, Subresources: []Subresource{proxy("ServiceProxyOptions"), status()}, StoragePrefix: "services/specs",
			newObject: func() Object { return &corev1.Service{} },
			newList:   func() runtime.Object { return &corev1.ServiceList{} },
		},
		{
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
			Resource:         "serviceaccounts", Singular: "serviceaccount", ShortNames: []string{"sa"},
			Namespaced: true, Subresources: []Subresource{token()}, StoragePrefix: "serviceaccounts",
			newObject: func() Object { return &corev1.ServiceAccount{} },
			newList:   func() runtime.Object { return &corev1.ServiceAccountList{} },
		},
		{
			GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("ControllerRevision"),
			Resource:         "controllerrevisions", Singular: "controllerrevision",
			Namespaced: true, StoragePrefix: "controllerrevisions",
			newObject: func() Object { return &appsv1.ControllerRevision{} },
			newList:   func() runtime.Object { return &appsv1.ControllerRevisionList{} },
		},
		{
			GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("Deployment"),
			Resource:         "deployments", Singular: "deployment", ShortNames: []string{"deploy"}, Categories: []string{"all"},
			Namespaced: true, Subresources: []Subresource{scale(), status()}, StoragePrefix: "deployments",
			newObject: func() Object { return &appsv1.Deployment{} },
			newList:   func() runtime.Object { return &appsv1.DeploymentList{} },
		},
		{
			GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
			Resource:         "replicasets", Singular: "replicaset", ShortNames: []string{"rs"}, Categories: []string{"all"},
			Namespaced: true, Subresources: []Subresource{scale(), status()}, StoragePrefix: "replicasets",
			newObject: func() Object { return &appsv1.ReplicaSet{} },
			newList:   func() runtime.Object { return &appsv1.ReplicaSetList{} },
		},
		{
			GroupVersionKind: eventsv1.SchemeGroupVersion.WithKind("Event"),
			Resource:         "events", Singular: "event", ShortNames: []string{"ev"},
			Namespaced: true, StoragePrefix: "events",
			Storage:   corev1.SchemeGroupVersion.WithKind("Event"),
			newObject: func() Object { return &eventsv1.Event{} },
			newList:   func() runtime.Object { return &eventsv1.EventList{} },
		},
	}
}

// observedRows are the kinds with which programs share their state, and those of what nodes measure. As in
// metrics-server, the latter have no singular names.
func observedRows() []Kind {
	return []Kind{
		{
			GroupVersionKind: metricsv1beta1.SchemeGroupVersion.WithKind("NodeMetrics"), Resource: "nodes", Virtual: true, Observed: true,
			newObject: func() Object { return &metricsv1beta1.NodeMetrics{} },
			newList:   func() runtime.Object { return &metricsv1beta1.NodeMetricsList{} },
		},
		{
			GroupVersionKind: metricsv1beta1.SchemeGroupVersion.WithKind("PodMetrics"), Resource: "pods", Namespaced: true, Virtual: true, Observed: true,
			newObject: func() Object { return &metricsv1beta1.PodMetrics{} },
			newList:   func() runtime.Object { return &metricsv1beta1.PodMetricsList{} },
		},
		{
			GroupVersionKind: coordinationv1.SchemeGroupVersion.WithKind("Lease"),
			Resource:         "leases", Singular: "lease",
			Namespaced: true, StoragePrefix: "leases",
			newObject: func() Object { return &coordinationv1.Lease{} },
			newList:   func() runtime.Object { return &coordinationv1.LeaseList{} },
		},
		{
			GroupVersionKind: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"),
			Resource:         "endpointslices", Singular: "endpointslice",
			Namespaced: true, StoragePrefix: "endpointslices",
			newObject: func() Object { return &discoveryv1.EndpointSlice{} },
			newList:   func() runtime.Object { return &discoveryv1.EndpointSliceList{} },
		},
	}
}

func podNode(obj Object) string {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return Unscoped
	}
	return pod.Spec.NodeName
}
