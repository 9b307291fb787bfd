package upstream

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/registry/rest"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kube-aggregator/pkg/registry/apiservice"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/api/testing" // Registers the kinds of all groups.
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/apps/controllerrevision"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/certificates/certificates"
	"k8s.io/kubernetes/pkg/registry/certificates/clustertrustbundle"
	"k8s.io/kubernetes/pkg/registry/certificates/podcertificaterequest"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/endpoint"
	"k8s.io/kubernetes/pkg/registry/core/event"
	"k8s.io/kubernetes/pkg/registry/core/limitrange"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/podtemplate"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/discovery/endpointslice"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/flowschema"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/prioritylevelconfiguration"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/ingressclass"
	"k8s.io/kubernetes/pkg/registry/networking/ipaddress"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/networking/servicecidr"
	"k8s.io/kubernetes/pkg/registry/node/runtimeclass"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrole"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding"
	"k8s.io/kubernetes/pkg/registry/rbac/role"
	"k8s.io/kubernetes/pkg/registry/rbac/rolebinding"
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/resource/devicetaintrule"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaimtemplate"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	"k8s.io/kubernetes/pkg/registry/storage/csidriver"
	"k8s.io/kubernetes/pkg/registry/storage/csinode"
	"k8s.io/kubernetes/pkg/registry/storage/csistoragecapacity"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattachment"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattributesclass"
	"k8s.io/kubernetes/pkg/registry/storagemigration/storagemigration"
	"k8s.io/utils/clock"
)

// rules are Kubernetes' rules for one kind.
type rules struct {
	scheme *runtime.Scheme
	whole  rest.RESTCreateUpdateStrategy
	// parts are the rules for updates of subresources.
	parts map[string]rest.RESTUpdateStrategy
	// registry is what the kind's registry does besides.
	registry completion
}

// strategies returns Kubernetes' rules for each kind, by API version and kind.
func strategies() (map[string]rules, error) {
	found := map[string]rules{}
	add := func(kind string, whole rest.RESTCreateUpdateStrategy, status rest.RESTUpdateStrategy) {
		r := rules{scheme: legacyscheme.Scheme, whole: whole, parts: map[string]rest.RESTUpdateStrategy{}}
		if status != nil {
			r.parts["status"] = status
		}
		found[kind] = r
	}
	addCore(add)
	addWorkloads(add)
	addNetwork(add)
	addStorage(add)
	addAccess(add)
	addDevices(add)
	found["v1 Namespace"].parts["finalize"] = namespace.FinalizeStrategy
	found["v1 Pod"].parts["ephemeralcontainers"] = pod.EphemeralContainersStrategy
	found["v1 Pod"].parts["resize"] = pod.ResizeStrategy
	found["certificates.k8s.io/v1 CertificateSigningRequest"].parts["approval"] = certificates.ApprovalStrategy
	found["apiregistration.k8s.io/v1 APIService"] = rules{
		scheme: aggregatorscheme.Scheme, whole: apiservice.NewStrategy(aggregatorscheme.Scheme),
		parts: map[string]rest.RESTUpdateStrategy{"status": apiservice.NewStatusStrategy(aggregatorscheme.Scheme)},
	}
	whole := found["v1 Service"]
	var err error
	whole.registry, err = services()
	found["v1 Service"] = whole
	return found, err
}

type adder func(kind string, whole rest.RESTCreateUpdateStrategy, status rest.RESTUpdateStrategy)

func addCore(add adder) {
	add("v1 ConfigMap", configmap.Strategy, nil)
	add("v1 Event", event.Strategy, nil)
	add("events.k8s.io/v1 Event", event.Strategy, nil)
	add("v1 LimitRange", limitrange.Strategy, nil)
	add("v1 Namespace", namespace.Strategy, namespace.StatusStrategy)
	add("v1 Node", node.Strategy, node.StatusStrategy)
	add("v1 ResourceQuota", resourcequota.Strategy, resourcequota.StatusStrategy)
	add("v1 Secret", secret.Strategy, nil)
	add("v1 ServiceAccount", serviceaccount.Strategy, nil)
	add("coordination.k8s.io/v1 Lease", lease.Strategy, nil)
	add("scheduling.k8s.io/v1 PriorityClass", priorityclass.Strategy, nil)
	add("node.k8s.io/v1 RuntimeClass", runtimeclass.Strategy, nil)
}

func addWorkloads(add adder) {
	add("v1 Pod", pod.Strategy, pod.StatusStrategy)
	add("v1 PodTemplate", podtemplate.Strategy, nil)
	add("v1 ReplicationController", replicationcontroller.Strategy, replicationcontroller.StatusStrategy)
	add("apps/v1 ControllerRevision", controllerrevision.Strategy, nil)
	add("apps/v1 DaemonSet", daemonset.Strategy, daemonset.StatusStrategy)
	add("apps/v1 Deployment", deployment.Strategy, deployment.StatusStrategy)
	add("apps/v1 ReplicaSet", replicaset.Strategy, replicaset.StatusStrategy)
	add("apps/v1 StatefulSet", statefulset.Strategy, statefulset.StatusStrategy)
	add("batch/v1 CronJob", cronjob.Strategy, cronjob.StatusStrategy)
	add("batch/v1 Job", job.Strategy, job.StatusStrategy)
	add("autoscaling/v1 HorizontalPodAutoscaler", horizontalpodautoscaler.Strategy, horizontalpodautoscaler.StatusStrategy)
	add("autoscaling/v2 HorizontalPodAutoscaler", horizontalpodautoscaler.Strategy, horizontalpodautoscaler.StatusStrategy)
	add("policy/v1 PodDisruptionBudget", poddisruptionbudget.Strategy, poddisruptionbudget.StatusStrategy)
}

func addNetwork(add adder) {
	add("v1 Endpoints", endpoint.Strategy, nil)
	add("v1 Service", service.Strategy, service.StatusStrategy)
	add("discovery.k8s.io/v1 EndpointSlice", endpointslice.Strategy, nil)
	add("networking.k8s.io/v1 Ingress", ingress.Strategy, ingress.StatusStrategy)
	add("networking.k8s.io/v1 IngressClass", ingressclass.Strategy, nil)
	add("networking.k8s.io/v1 IPAddress", ipaddress.Strategy, nil)
	add("networking.k8s.io/v1 NetworkPolicy", networkpolicy.Strategy, nil)
	add("networking.k8s.io/v1 ServiceCIDR", servicecidr.Strategy, servicecidr.StatusStrategy)
}

func addStorage(add adder) {
	add("v1 PersistentVolume", persistentvolume.Strategy, persistentvolume.StatusStrategy)
	add("v1 PersistentVolumeClaim", persistentvolumeclaim.Strategy, persistentvolumeclaim.StatusStrategy)
	add("storage.k8s.io/v1 CSIDriver", csidriver.Strategy, nil)
	add("storage.k8s.io/v1 CSINode", csinode.Strategy, nil)
	add("storage.k8s.io/v1 CSIStorageCapacity", csistoragecapacity.Strategy, nil)
	add("storage.k8s.io/v1 StorageClass", storageclass.Strategy, nil)
	add("storage.k8s.io/v1 VolumeAttachment", volumeattachment.Strategy, volumeattachment.StatusStrategy)
	add("storage.k8s.io/v1 VolumeAttributesClass", volumeattributesclass.Strategy, nil)
}

func addAccess(add adder) {
	add("rbac.authorization.k8s.io/v1 ClusterRole", clusterrole.Strategy, nil)
	add("rbac.authorization.k8s.io/v1 ClusterRoleBinding", clusterrolebinding.Strategy, nil)
	add("rbac.authorization.k8s.io/v1 Role", role.Strategy, nil)
	add("rbac.authorization.k8s.io/v1 RoleBinding", rolebinding.Strategy, nil)
	add("certificates.k8s.io/v1 CertificateSigningRequest", certificates.Strategy, certificates.StatusStrategy)
	add("certificates.k8s.io/v1 ClusterTrustBundle", clustertrustbundle.Strategy, nil)
	requests := podcertificaterequest.NewStrategy()
	add("certificates.k8s.io/v1 PodCertificateRequest", requests,
		podcertificaterequest.NewStatusStrategy(requests, authorizerfactory.NewAlwaysAllowAuthorizer(), clock.RealClock{}))
	const hooks = "admissionregistration.k8s.io/v1 "
	add(hooks+"MutatingWebhookConfiguration", mutatingwebhookconfiguration.Strategy, nil)
	add(hooks+"ValidatingWebhookConfiguration", validatingwebhookconfiguration.Strategy, nil)
	// The registry, not the strategy, checks whether an author may read a policy's parameters.
	policies := validatingadmissionpolicy.NewStrategy(nil, noResources{})
	add(hooks+"ValidatingAdmissionPolicy", policies, validatingadmissionpolicy.NewStatusStrategy(policies))
	add(hooks+"ValidatingAdmissionPolicyBinding", validatingadmissionpolicybinding.NewStrategy(nil, nil, noResources{}), nil)
	add(hooks+"MutatingAdmissionPolicy", mutatingadmissionpolicy.NewStrategy(nil, noResources{}), nil)
	add(hooks+"MutatingAdmissionPolicyBinding", mutatingadmissionpolicybinding.NewStrategy(nil, nil, noResources{}), nil)
	add("flowcontrol.apiserver.k8s.io/v1 FlowSchema", flowschema.Strategy, flowschema.StatusStrategy)
	add("storagemigration.k8s.io/v1 StorageVersionMigration", storagemigration.Strategy, storagemigration.StatusStrategy)
	add("flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration", prioritylevelconfiguration.Strategy, prioritylevelconfiguration.StatusStrategy)
}

func addDevices(add adder) {
	const group = "resource.k8s.io/v1 "
	claims := resourceclaim.NewStrategy(adminNamespaces{}, authorizerfactory.NewAlwaysAllowAuthorizer())
	add(group+"DeviceClass", deviceclass.Strategy, nil)
	add(group+"DeviceTaintRule", devicetaintrule.Strategy, devicetaintrule.StatusStrategy)
	add(group+"ResourceClaim", claims, resourceclaim.NewStatusStrategy(claims))
	add(group+"ResourceClaimTemplate", resourceclaimtemplate.NewStrategy(adminNamespaces{}), nil)
	add(group+"ResourceSlice", resourceslice.Strategy, nil)
}

// noResources resolves no kind. Only authorization asks for one, and there is none here.
type noResources struct{}

func (noResources) Resolve(kind schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	return schema.GroupVersionResource{}, fmt.Errorf("nothing resolves %s", kind)
}

// adminNamespaces are namespaces that allow administrators' claims: our admission checks that,
// instead of the strategy.
type adminNamespaces struct {
	corev1client.NamespaceInterface
}

func (adminNamespaces) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"resource.kubernetes.io/admin-access": "true"},
	}}, nil
}
