package columns

import (
	"time"

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/libs/scheme"
)

const (
	none    = "<none>"
	unknown = "<unknown>"
	unset   = "<unset>"
)

// layouts lists the kinds that have columns of their own. Names, types, order and descriptions are
// Kubernetes' (pkg/printers/internalversion).
func layouts() map[schema.GroupVersionKind]layout {
	core, apps, rbac := corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, rbacv1.SchemeGroupVersion
	return map[schema.GroupVersionKind]layout{
		core.WithKind("ConfigMap"):                                                              configMaps(),
		core.WithKind("Event"):                                                                  events(),
		core.WithKind("Namespace"):                                                              namespaces(),
		core.WithKind("Node"):                                                                   nodes(),
		core.WithKind("Pod"):                                                                    pods(),
		core.WithKind("Secret"):                                                                 secrets(),
		core.WithKind("Service"):                                                                services(),
		core.WithKind("ServiceAccount"):                                                         serviceAccounts(),
		apps.WithKind("ControllerRevision"):                                                     controllerRevisions(),
		apps.WithKind("Deployment"):                                                             deployments(),
		apps.WithKind("ReplicaSet"):                                                             replicaSets(),
		eventsv1.SchemeGroupVersion.WithKind("Event"):                                           newEvents(),
		coordinationv1.SchemeGroupVersion.WithKind("Lease"):                                     leases(),
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"):                                endpointSlices(),
		core.WithKind("LimitRange"):                                                             plain(),
		core.WithKind("PersistentVolumeClaim"):                                                  persistentVolumeClaims(),
		core.WithKind("ResourceQuota"):                                                          resourceQuotas(),
		rbac.WithKind("ClusterRole"):                                                            plain(),
		rbac.WithKind("ClusterRoleBinding"):                                                     clusterRoleBindings(),
		rbac.WithKind("Role"):                                                                   plain(),
		rbac.WithKind("RoleBinding"):                                                            roleBindings(),
		certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"):                 certificateSigningRequests(),
		policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"):                             podDisruptionBudgets(),
		schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"):                               priorityClasses(),
		storagev1.SchemeGroupVersion.WithKind("StorageClass"):                                   storageClasses(),
		core.WithKind("ComponentStatus"):                                                        componentStatuses(),
		core.WithKind("PersistentVolume"):                                                       persistentVolumes(),
		storagev1.SchemeGroupVersion.WithKind("CSIDriver"):                                      csiDrivers(),
		storagev1.SchemeGroupVersion.WithKind("CSINode"):                                        csiNodes(),
		storagev1.SchemeGroupVersion.WithKind("CSIStorageCapacity"):                             plain(),
		storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"):                               volumeAttachments(),
		storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass"):                          volumeAttributesClasses(),
		nodev1.SchemeGroupVersion.WithKind("RuntimeClass"):                                      runtimeClasses(),
		resourcev1.SchemeGroupVersion.WithKind("DeviceClass"):                                   aged(),
		resourcev1.SchemeGroupVersion.WithKind("DeviceTaintRule"):                               deviceTaintRules(),
		resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"):                                 resourceClaims(),
		resourcev1.SchemeGroupVersion.WithKind("ResourceClaimTemplate"):                         aged(),
		resourcev1.SchemeGroupVersion.WithKind("ResourceSlice"):                                 resourceSlices(),
		admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicy"):          mutatingPolicies(),
		admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicyBinding"):   mutatingPolicyBindings(),
		admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"):     mutatingWebhooks(),
		admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"):        validatingPolicies(),
		admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding"): validatingPolicyBindings(),
		admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"):   validatingWebhooks(),
		flowcontrolv1.SchemeGroupVersion.WithKind("FlowSchema"):                                 flowSchemas(),
		flowcontrolv1.SchemeGroupVersion.WithKind("PriorityLevelConfiguration"):                 priorityLevels(),
		certificatesv1.SchemeGroupVersion.WithKind("ClusterTrustBundle"):                        clusterTrustBundles(),
		certificatesv1.SchemeGroupVersion.WithKind("PodCertificateRequest"):                     podCertificateRequests(),
		apiregistrationv1.SchemeGroupVersion.WithKind("APIService"):                             apiServices(),
		core.WithKind("PodTemplate"):                                                            podTemplates(),
		core.WithKind("ReplicationController"):                                                  replicationControllers(),
		apps.WithKind("DaemonSet"):                                                              daemonSets(),
		apps.WithKind("StatefulSet"):                                                            statefulSets(),
		batchv1.SchemeGroupVersion.WithKind("CronJob"):                                          cronJobs(),
		batchv1.SchemeGroupVersion.WithKind("Job"):                                              jobs(),
		autoscalingv1.SchemeGroupVersion.WithKind("Scale"):                                      scales(),
		autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"):                    horizontalPodAutoscalersV1(),
		autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"):                    horizontalPodAutoscalers(),
		core.WithKind("Endpoints"):                                                              endpoints(),
		networkingv1.SchemeGroupVersion.WithKind("Ingress"):                                     ingresses(),
		networkingv1.SchemeGroupVersion.WithKind("IngressClass"):                                ingressClasses(),
		networkingv1.SchemeGroupVersion.WithKind("IPAddress"):                                   ipAddresses(),
		networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"):                               networkPolicies(),
		networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"):                                 serviceCIDRs(),
	}
}

// of builds a layout in terms of the kind's Go type.
func of[T scheme.Object](columns []metav1.TableColumnDefinition, cells func(obj T, now time.Time) []any) layout {
	return layout{columns: columns, cells: func(obj scheme.Object, now time.Time) []any {
		typed, ok := obj.(T)
		if !ok {
			return make([]any, len(columns))
		}
		return cells(typed, now)
	}}
}

// plain is the layout of a kind without columns of its own.
func plain() layout {
	return layout{
		columns: []metav1.TableColumnDefinition{
			name(),
			{Name: "Created At", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]},
		},
		cells: func(obj scheme.Object, _ time.Time) []any {
			return []any{obj.GetName(), obj.GetCreationTimestamp().UTC().Format(time.RFC3339)}
		},
	}
}

func name() metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]}
}

func age() metav1.TableColumnDefinition {
	return text("Age", metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"])
}

// text returns a column that is always shown. wide returns one that `-o wide` adds.
func text(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description}
}

func number(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "integer", Description: description}
}

func wide(column metav1.TableColumnDefinition) metav1.TableColumnDefinition {
	column.Priority = 1
	return column
}

// since returns how long ago t was, in kubectl's short form.
func since(t, now time.Time) string {
	if t.IsZero() {
		return unknown
	}
	return duration.HumanDuration(now.Sub(t))
}

func ageOf(obj metav1.Object, now time.Time) string {
	return since(obj.GetCreationTimestamp().Time, now)
}

func orNone(value string) string {
	if value == "" {
		return none
	}
	return value
}
