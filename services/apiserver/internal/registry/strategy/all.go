package strategy

import (
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// All gives the strategy of every kind that is stored: one row for each.
func All() map[schema.GroupVersionKind]*Strategy {
	core, apps, rbac := corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, rbacv1.SchemeGroupVersion
	return map[schema.GroupVersionKind]*Strategy{
		core.WithKind("ConfigMap"):                                              configMap(),
		core.WithKind("Event"):                                                  coreEvent(),
		core.WithKind("Namespace"):                                              namespace(),
		core.WithKind("Node"):                                                   node(),
		core.WithKind("Pod"):                                                    pod(),
		core.WithKind("Secret"):                                                 secret(),
		core.WithKind("Service"):                                                service(),
		core.WithKind("ServiceAccount"):                                         serviceAccount(),
		apps.WithKind("ControllerRevision"):                                     controllerRevision(),
		apps.WithKind("Deployment"):                                             deployment(),
		apps.WithKind("ReplicaSet"):                                             replicaSet(),
		eventsv1.SchemeGroupVersion.WithKind("Event"):                           event(),
		coordinationv1.SchemeGroupVersion.WithKind("Lease"):                     lease(),
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"):                endpointSlice(),
		core.WithKind("LimitRange"):                                             limitRange(),
		core.WithKind("PersistentVolumeClaim"):                                  persistentVolumeClaim(),
		core.WithKind("ResourceQuota"):                                          resourceQuota(),
		rbac.WithKind("ClusterRole"):                                            clusterRole(),
		rbac.WithKind("ClusterRoleBinding"):                                     clusterRoleBinding(),
		rbac.WithKind("Role"):                                                   role(),
		rbac.WithKind("RoleBinding"):                                            roleBinding(),
		certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"): certificateSigningRequest(),
		policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"):             podDisruptionBudget(),
		schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"):               priorityClass(),
		storagev1.SchemeGroupVersion.WithKind("StorageClass"):                   storageClass(),
	}
}
