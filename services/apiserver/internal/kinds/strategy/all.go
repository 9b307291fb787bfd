package strategy

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/dualstack"
)

// Config is what the strategies know of the cluster.
type Config struct {
	// Families are the address families of the cluster's services, the default one first; IPv4 if
	// there are none.
	Families dualstack.Families
	// Services hands out the addresses and ports of services; nil if nothing is written, as in a
	// tool.
	Services kinds.Reserver
}

// All returns the strategy of every stored kind, one row for each.
func All(config Config) map[schema.GroupVersionKind]*kinds.Definition {
	if len(config.Families) == 0 {
		config.Families = dualstack.Families{corev1.IPv4Protocol}
	}
	core, apps, rbac := corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, rbacv1.SchemeGroupVersion
	all := map[schema.GroupVersionKind]*kinds.Definition{
		core.WithKind("ConfigMap"):                                                              configMap(),
		core.WithKind("Event"):                                                                  coreEvent(),
		core.WithKind("Namespace"):                                                              namespace(),
		core.WithKind("Node"):                                                                   node(),
		core.WithKind("Pod"):                                                                    pod(),
		core.WithKind("Secret"):                                                                 secret(),
		core.WithKind("Service"):                                                                service(config),
		core.WithKind("ServiceAccount"):                                                         serviceAccount(),
		apps.WithKind("ControllerRevision"):                                                     controllerRevision(),
		apps.WithKind("Deployment"):                                                             deployment(),
		apps.WithKind("ReplicaSet"):                                                             replicaSet(),
		eventsv1.SchemeGroupVersion.WithKind("Event"):                                           event(),
		coordinationv1.SchemeGroupVersion.WithKind("Lease"):                                     lease(),
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"):                                endpointSlice(),
		core.WithKind("LimitRange"):                                                             limitRange(),
		core.WithKind("PersistentVolumeClaim"):                                                  persistentVolumeClaim(),
		core.WithKind("ResourceQuota"):                                                          resourceQuota(),
		rbac.WithKind("ClusterRole"):                                                            clusterRole(),
		rbac.WithKind("ClusterRoleBinding"):                                                     clusterRoleBinding(),
		rbac.WithKind("Role"):                                                                   role(),
		rbac.WithKind("RoleBinding"):                                                            roleBinding(),
		certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"):                 certificateSigningRequest(),
		policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"):                             podDisruptionBudget(),
		schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"):                               priorityClass(),
		storagev1.SchemeGroupVersion.WithKind("StorageClass"):                                   storageClass(),
		core.WithKind("PodTemplate"):                                                            podTemplate(),
		core.WithKind("ReplicationController"):                                                  replicationController(),
		apps.WithKind("DaemonSet"):                                                              daemonSet(),
		apps.WithKind("StatefulSet"):                                                            statefulSet(),
		batchv1.SchemeGroupVersion.WithKind("CronJob"):                                          cronJob(),
		batchv1.SchemeGroupVersion.WithKind("Job"):                                              job(),
		autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"):                    horizontalPodAutoscalerV1(),
		autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"):                    horizontalPodAutoscaler(),
		core.WithKind("Endpoints"):                                                              endpoints(),
		networkingv1.SchemeGroupVersion.WithKind("Ingress"):                                     ingress(),
		networkingv1.SchemeGroupVersion.WithKind("IngressClass"):                                ingressClass(),
		networkingv1.SchemeGroupVersion.WithKind("IPAddress"):                                   ipAddress(),
		networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"):                               networkPolicy(),
		networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"):                                 serviceCIDR(),
		core.WithKind("PersistentVolume"):                                                       persistentVolume(),
		storagev1.SchemeGroupVersion.WithKind("CSIDriver"):                                      csiDriver(),
		storagev1.SchemeGroupVersion.WithKind("CSINode"):                                        csiNode(),
		storagev1.SchemeGroupVersion.WithKind("CSIStorageCapacity"):                             csiStorageCapacity(),
		storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"):                               volumeAttachment(),
		storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass"):                          volumeAttributesClass(),
		resourcev1.SchemeGroupVersion.WithKind("DeviceClass"):                                   deviceClass(),
		resourcev1.SchemeGroupVersion.WithKind("DeviceTaintRule"):                               deviceTaintRule(),
		resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"):                                 resourceClaim(),
		resourcev1.SchemeGroupVersion.WithKind("ResourceClaimTemplate"):                         resourceClaimTemplate(),
		resourcev1.SchemeGroupVersion.WithKind("ResourceSlice"):                                 resourceSlice(),
		nodev1.SchemeGroupVersion.WithKind("RuntimeClass"):                                      runtimeClass(),
		admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicy"):          mutatingPolicy(),
		admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicyBinding"):   mutatingPolicyBinding(),
		admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"):     mutatingWebhooks(),
		admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"):        validatingPolicy(),
		admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding"): validatingPolicyBinding(),
		admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"):   validatingWebhooks(),
		flowcontrolv1.SchemeGroupVersion.WithKind("FlowSchema"):                                 flowSchema(),
		flowcontrolv1.SchemeGroupVersion.WithKind("PriorityLevelConfiguration"):                 priorityLevel(),
		certificatesv1.SchemeGroupVersion.WithKind("ClusterTrustBundle"):                        clusterTrustBundle(),
		certificatesv1.SchemeGroupVersion.WithKind("PodCertificateRequest"):                     podCertificateRequest(),
		apiregistrationv1.SchemeGroupVersion.WithKind("APIService"):                             apiService(),
	}
	for _, s := range all {
		withoutDisabled(s)
	}
	return all
}
