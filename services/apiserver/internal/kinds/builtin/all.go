package builtin

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
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/admissionregistration"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/apiextensions"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/apiregistration"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/apps"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/autoscaling"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/batch"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/certificates"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/coordination"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/dualstack"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/pod"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/service"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/volume"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/discovery"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/flowcontrol"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/metrics"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/networking"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/node"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/policy"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/rbac"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/resource"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/scheduling"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/storage"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/storagemigration"
)

// Config is what the definitions know of the cluster.
type Config struct {
	// Families are the address families of the cluster's services, the default one first; IPv4 if
	// there are none.
	Families dualstack.Families
	// Services hands out the addresses and ports of services; nil if nothing is written, as in a
	// tool.
	Services kinds.Reserver
}

// All returns the definition of every stored kind, one row for each, and the columns of others.
func All(config Config) map[schema.GroupVersionKind]*kinds.Definition {
	if len(config.Families) == 0 {
		config.Families = dualstack.Families{corev1.IPv4Protocol}
	}
	all := map[schema.GroupVersionKind]*kinds.Definition{
		corev1.SchemeGroupVersion.WithKind("ConfigMap"):                                         core.ConfigMap(),
		corev1.SchemeGroupVersion.WithKind("Event"):                                             core.CoreEvent(),
		corev1.SchemeGroupVersion.WithKind("Namespace"):                                         core.Namespace(),
		corev1.SchemeGroupVersion.WithKind("Node"):                                              core.Node(),
		corev1.SchemeGroupVersion.WithKind("Pod"):                                               pod.Pod(),
		corev1.SchemeGroupVersion.WithKind("Secret"):                                            core.Secret(),
		corev1.SchemeGroupVersion.WithKind("Service"):                                           service.Service(config.Families, config.Services),
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"):                                    core.ServiceAccount(),
		apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"):                 apiextensions.CustomResourceDefinition(),
		appsv1.SchemeGroupVersion.WithKind("ControllerRevision"):                                apps.ControllerRevision(),
		appsv1.SchemeGroupVersion.WithKind("Deployment"):                                        apps.Deployment(),
		appsv1.SchemeGroupVersion.WithKind("ReplicaSet"):                                        apps.ReplicaSet(),
		eventsv1.SchemeGroupVersion.WithKind("Event"):                                           core.Event(),
		coordinationv1.SchemeGroupVersion.WithKind("Lease"):                                     coordination.Lease(),
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"):                                discovery.EndpointSlice(),
		corev1.SchemeGroupVersion.WithKind("LimitRange"):                                        core.LimitRange(),
		corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"):                             volume.PersistentVolumeClaim(),
		corev1.SchemeGroupVersion.WithKind("ResourceQuota"):                                     core.ResourceQuota(),
		rbacv1.SchemeGroupVersion.WithKind("ClusterRole"):                                       rbac.ClusterRole(),
		rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"):                                rbac.ClusterRoleBinding(),
		rbacv1.SchemeGroupVersion.WithKind("Role"):                                              rbac.Role(),
		rbacv1.SchemeGroupVersion.WithKind("RoleBinding"):                                       rbac.RoleBinding(),
		certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"):                 certificates.CertificateSigningRequest(),
		policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"):                             policy.PodDisruptionBudget(),
		schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"):                               scheduling.PriorityClass(),
		storagev1.SchemeGroupVersion.WithKind("StorageClass"):                                   storage.StorageClass(),
		corev1.SchemeGroupVersion.WithKind("PodTemplate"):                                       pod.PodTemplate(),
		corev1.SchemeGroupVersion.WithKind("ReplicationController"):                             apps.ReplicationController(),
		appsv1.SchemeGroupVersion.WithKind("DaemonSet"):                                         apps.DaemonSet(),
		appsv1.SchemeGroupVersion.WithKind("StatefulSet"):                                       apps.StatefulSet(),
		batchv1.SchemeGroupVersion.WithKind("CronJob"):                                          batch.CronJob(),
		batchv1.SchemeGroupVersion.WithKind("Job"):                                              batch.Job(),
		autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"):                    autoscaling.HorizontalPodAutoscalerV1(),
		autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"):                    autoscaling.HorizontalPodAutoscaler(),
		corev1.SchemeGroupVersion.WithKind("Endpoints"):                                         service.Endpoints(),
		networkingv1.SchemeGroupVersion.WithKind("Ingress"):                                     networking.Ingress(),
		networkingv1.SchemeGroupVersion.WithKind("IngressClass"):                                networking.IngressClass(),
		networkingv1.SchemeGroupVersion.WithKind("IPAddress"):                                   networking.IPAddress(),
		networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"):                               networking.NetworkPolicy(),
		networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"):                                 networking.ServiceCIDR(),
		corev1.SchemeGroupVersion.WithKind("PersistentVolume"):                                  volume.PersistentVolume(),
		storagev1.SchemeGroupVersion.WithKind("CSIDriver"):                                      storage.CSIDriver(),
		storagev1.SchemeGroupVersion.WithKind("CSINode"):                                        storage.CSINode(),
		storagev1.SchemeGroupVersion.WithKind("CSIStorageCapacity"):                             storage.CSIStorageCapacity(),
		storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"):                               storage.VolumeAttachment(),
		storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass"):                          storage.VolumeAttributesClass(),
		resourcev1.SchemeGroupVersion.WithKind("DeviceClass"):                                   resource.DeviceClass(),
		resourcev1.SchemeGroupVersion.WithKind("DeviceTaintRule"):                               resource.DeviceTaintRule(),
		resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"):                                 resource.ResourceClaim(),
		resourcev1.SchemeGroupVersion.WithKind("ResourceClaimTemplate"):                         resource.ResourceClaimTemplate(),
		resourcev1.SchemeGroupVersion.WithKind("ResourceSlice"):                                 resource.ResourceSlice(),
		nodev1.SchemeGroupVersion.WithKind("RuntimeClass"):                                      node.RuntimeClass(),
		admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicy"):          admissionregistration.MutatingPolicy(),
		admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicyBinding"):   admissionregistration.MutatingPolicyBinding(),
		admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"):     admissionregistration.MutatingWebhooks(),
		admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"):        admissionregistration.ValidatingPolicy(),
		admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding"): admissionregistration.ValidatingPolicyBinding(),
		admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"):   admissionregistration.ValidatingWebhooks(),
		flowcontrolv1.SchemeGroupVersion.WithKind("FlowSchema"):                                 flowcontrol.FlowSchema(),
		flowcontrolv1.SchemeGroupVersion.WithKind("PriorityLevelConfiguration"):                 flowcontrol.PriorityLevel(),
		certificatesv1.SchemeGroupVersion.WithKind("ClusterTrustBundle"):                        certificates.ClusterTrustBundle(),
		certificatesv1.SchemeGroupVersion.WithKind("PodCertificateRequest"):                     certificates.PodCertificateRequest(),
		storagemigrationv1.SchemeGroupVersion.WithKind("StorageVersionMigration"):               storagemigration.StorageVersionMigration(),
		apiregistrationv1.SchemeGroupVersion.WithKind("APIService"):                             apiregistration.APIService(),
		// Not stored.
		corev1.SchemeGroupVersion.WithKind("ComponentStatus"):     {Columns: core.ComponentStatusColumns()},
		autoscalingv1.SchemeGroupVersion.WithKind("Scale"):        {Columns: autoscaling.ScaleColumns()},
		metricsv1beta1.SchemeGroupVersion.WithKind("NodeMetrics"): {Columns: metrics.NodeMetricsColumns()},
		metricsv1beta1.SchemeGroupVersion.WithKind("PodMetrics"):  {Columns: metrics.PodMetricsColumns()},
	}
	for _, s := range all {
		withoutDisabled(s)
	}
	return all
}
