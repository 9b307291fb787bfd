package e2e_test

import "strings"

// explainSession asks which resources the apiserver serves, and for their descriptions.
func explainSession() session {
	return session{name: "explain", steps: concat(apiResources(), explainKinds(), explainFields())}
}

func apiResources() []step {
	return []step{
		{run: "api-versions", out: `
admissionregistration.k8s.io/v1
apiextensions.k8s.io/v1
apiregistration.k8s.io/v1
apps/v1
authentication.k8s.io/v1
authorization.k8s.io/v1
autoscaling/v1
autoscaling/v2
batch/v1
certificates.k8s.io/v1
coordination.k8s.io/v1
discovery.k8s.io/v1
events.k8s.io/v1
flowcontrol.apiserver.k8s.io/v1
metrics.k8s.io/v1beta1
networking.k8s.io/v1
node.k8s.io/v1
policy/v1
rbac.authorization.k8s.io/v1
resource.k8s.io/v1
scheduling.k8s.io/v1
storage.k8s.io/v1
storagemigration.k8s.io/v1
v1
`},
		// The resources that Kubernetes serves, and metrics-server, in the order of their groups.
		{run: "api-resources", out: `
NAME                                SHORTNAMES   APIVERSION                        NAMESPACED   KIND
bindings                                         v1                                true         Binding
componentstatuses                   cs           v1                                false        ComponentStatus
configmaps                          cm           v1                                true         ConfigMap
endpoints                           ep           v1                                true         Endpoints
events                              ev           v1                                true         Event
limitranges                         limits       v1                                true         LimitRange
namespaces                          ns           v1                                false        Namespace
nodes                               no           v1                                false        Node
persistentvolumeclaims              pvc          v1                                true         PersistentVolumeClaim
persistentvolumes                   pv           v1                                false        PersistentVolume
pods                                po           v1                                true         Pod
podtemplates                                     v1                                true         PodTemplate
replicationcontrollers              rc           v1                                true         ReplicationController
resourcequotas                      quota        v1                                true         ResourceQuota
secrets                                          v1                                true         Secret
serviceaccounts                     sa           v1                                true         ServiceAccount
services                            svc          v1                                true         Service
mutatingadmissionpolicies                        admissionregistration.k8s.io/v1   false        MutatingAdmissionPolicy
mutatingadmissionpolicybindings                  admissionregistration.k8s.io/v1   false        MutatingAdmissionPolicyBinding
mutatingwebhookconfigurations                    admissionregistration.k8s.io/v1   false        MutatingWebhookConfiguration
validatingadmissionpolicies                      admissionregistration.k8s.io/v1   false        ValidatingAdmissionPolicy
validatingadmissionpolicybindings                admissionregistration.k8s.io/v1   false        ValidatingAdmissionPolicyBinding
validatingwebhookconfigurations                  admissionregistration.k8s.io/v1   false        ValidatingWebhookConfiguration
customresourcedefinitions           crd,crds     apiextensions.k8s.io/v1           false        CustomResourceDefinition
apiservices                                      apiregistration.k8s.io/v1         false        APIService
controllerrevisions                              apps/v1                           true         ControllerRevision
daemonsets                          ds           apps/v1                           true         DaemonSet
deployments                         deploy       apps/v1                           true         Deployment
replicasets                         rs           apps/v1                           true         ReplicaSet
statefulsets                        sts          apps/v1                           true         StatefulSet
selfsubjectreviews                               authentication.k8s.io/v1          false        SelfSubjectReview
tokenreviews                                     authentication.k8s.io/v1          false        TokenReview
localsubjectaccessreviews                        authorization.k8s.io/v1           true         LocalSubjectAccessReview
selfsubjectaccessreviews                         authorization.k8s.io/v1           false        SelfSubjectAccessReview
selfsubjectrulesreviews                          authorization.k8s.io/v1           false        SelfSubjectRulesReview
subjectaccessreviews                             authorization.k8s.io/v1           false        SubjectAccessReview
horizontalpodautoscalers            hpa          autoscaling/v2                    true         HorizontalPodAutoscaler
cronjobs                            cj           batch/v1                          true         CronJob
jobs                                             batch/v1                          true         Job
certificatesigningrequests          csr          certificates.k8s.io/v1            false        CertificateSigningRequest
clustertrustbundles                              certificates.k8s.io/v1            false        ClusterTrustBundle
podcertificaterequests                           certificates.k8s.io/v1            true         PodCertificateRequest
leases                                           coordination.k8s.io/v1            true         Lease
endpointslices                                   discovery.k8s.io/v1               true         EndpointSlice
events                              ev           events.k8s.io/v1                  true         Event
flowschemas                                      flowcontrol.apiserver.k8s.io/v1   false        FlowSchema
prioritylevelconfigurations                      flowcontrol.apiserver.k8s.io/v1   false        PriorityLevelConfiguration
nodes                                            metrics.k8s.io/v1beta1            false        NodeMetrics
pods                                             metrics.k8s.io/v1beta1            true         PodMetrics
ingressclasses                                   networking.k8s.io/v1              false        IngressClass
ingresses                           ing          networking.k8s.io/v1              true         Ingress
ipaddresses                         ip           networking.k8s.io/v1              false        IPAddress
networkpolicies                     netpol       networking.k8s.io/v1              true         NetworkPolicy
servicecidrs                                     networking.k8s.io/v1              false        ServiceCIDR
runtimeclasses                                   node.k8s.io/v1                    false        RuntimeClass
poddisruptionbudgets                pdb          policy/v1                         true         PodDisruptionBudget
clusterrolebindings                              rbac.authorization.k8s.io/v1      false        ClusterRoleBinding
clusterroles                                     rbac.authorization.k8s.io/v1      false        ClusterRole
rolebindings                                     rbac.authorization.k8s.io/v1      true         RoleBinding
roles                                            rbac.authorization.k8s.io/v1      true         Role
deviceclasses                                    resource.k8s.io/v1                false        DeviceClass
devicetaintrules                                 resource.k8s.io/v1                false        DeviceTaintRule
resourceclaims                                   resource.k8s.io/v1                true         ResourceClaim
resourceclaimtemplates                           resource.k8s.io/v1                true         ResourceClaimTemplate
resourceslices                                   resource.k8s.io/v1                false        ResourceSlice
priorityclasses                     pc           scheduling.k8s.io/v1              false        PriorityClass
csidrivers                                       storage.k8s.io/v1                 false        CSIDriver
csinodes                                         storage.k8s.io/v1                 false        CSINode
csistoragecapacities                             storage.k8s.io/v1                 true         CSIStorageCapacity
storageclasses                      sc           storage.k8s.io/v1                 false        StorageClass
volumeattachments                                storage.k8s.io/v1                 false        VolumeAttachment
volumeattributesclasses             vac          storage.k8s.io/v1                 false        VolumeAttributesClass
storageversionmigrations                         storagemigration.k8s.io/v1        false        StorageVersionMigration
`},
		{run: "api-resources --namespaced=false --api-group=rbac.authorization.k8s.io -o name", out: "clusterrolebindings.rbac.authorization.k8s.io\nclusterroles.rbac.authorization.k8s.io"},
		{run: "api-resources --categories=all -o name", out: `
pods
replicationcontrollers
services
daemonsets.apps
deployments.apps
replicasets.apps
statefulsets.apps
horizontalpodautoscalers.autoscaling
cronjobs.batch
jobs.batch
`},
		{run: "api-resources --api-group=apps -o wide --no-headers", out: `
controllerrevisions apps/v1 true ControllerRevision create,delete,deletecollection,get,list,patch,update,watch
daemonsets ds apps/v1 true DaemonSet create,delete,deletecollection,get,list,patch,update,watch all
deployments deploy apps/v1 true Deployment create,delete,deletecollection,get,list,patch,update,watch all
replicasets rs apps/v1 true ReplicaSet create,delete,deletecollection,get,list,patch,update,watch all
statefulsets sts apps/v1 true StatefulSet create,delete,deletecollection,get,list,patch,update,watch all
`},
		{run: "api-resources --verbs=create,get --api-group=authorization.k8s.io -o name"},
		{run: "api-resources --sort-by=kind --api-group=policy", out: "NAME SHORTNAMES APIVERSION NAMESPACED KIND\npoddisruptionbudgets pdb policy/v1 true PodDisruptionBudget"},
		{run: "api-resources --sort-by=colour", code: 1, err: "error: --sort-by accepts only name or kind"},
	}
}

// explainKinds asks for the description of every kind.
func explainKinds() []step {
	var steps []step
	for each := range strings.FieldsSeq(`
		bindings/Binding componentstatuses/ComponentStatus configmaps/ConfigMap endpoints/Endpoints events/Event limitranges/LimitRange namespaces/Namespace nodes/Node
		persistentvolumeclaims/PersistentVolumeClaim persistentvolumes/PersistentVolume pods/Pod podtemplates/PodTemplate
		replicationcontrollers/ReplicationController resourcequotas/ResourceQuota secrets/Secret serviceaccounts/ServiceAccount services/Service
		admissionregistration.k8s.io:mutatingwebhookconfigurations/MutatingWebhookConfiguration
		admissionregistration.k8s.io:validatingadmissionpolicies/ValidatingAdmissionPolicy apiregistration.k8s.io:apiservices/APIService
		apps:controllerrevisions/ControllerRevision apps:daemonsets/DaemonSet apps:deployments/Deployment apps:replicasets/ReplicaSet apps:statefulsets/StatefulSet
		autoscaling:horizontalpodautoscalers/HorizontalPodAutoscaler batch:cronjobs/CronJob batch:jobs/Job
		certificates.k8s.io:certificatesigningrequests/CertificateSigningRequest coordination.k8s.io:leases/Lease discovery.k8s.io:endpointslices/EndpointSlice
		flowcontrol.apiserver.k8s.io:flowschemas/FlowSchema networking.k8s.io:ingresses/Ingress networking.k8s.io:networkpolicies/NetworkPolicy
		node.k8s.io:runtimeclasses/RuntimeClass policy:poddisruptionbudgets/PodDisruptionBudget rbac.authorization.k8s.io:clusterroles/ClusterRole
		resource.k8s.io:resourceclaims/ResourceClaim scheduling.k8s.io:priorityclasses/PriorityClass
		storage.k8s.io:csidrivers/CSIDriver storage.k8s.io:storageclasses/StorageClass`) {
		group, name, found := strings.Cut(each, ":")
		if !found {
			group, name = "", each
		}
		resource, kind, _ := strings.Cut(name, "/")
		head := "KIND: " + kind + "\nVERSION: v…\n\nDESCRIPTION:\n⋮\nFIELDS:\n⋮\n  metadata	<ObjectMeta>…\n⋮"
		if group != "" {
			head = "GROUP: " + group + "\n" + head
		}
		steps = append(steps, step{run: "explain " + resource, out: head})
	}
	return steps
}

func explainFields() []step {
	return []step{
		{run: "explain deployment.spec.strategy.rollingUpdate", out: `
GROUP:      apps
KIND:       Deployment
VERSION:    v1

FIELD: rollingUpdate <RollingUpdateDeployment>
⋮
DESCRIPTION:
⋮
FIELDS:
  maxSurge	<IntOrString>
⋮
  maxUnavailable	<IntOrString>
⋮
`},
		{run: "explain deployment.spec --recursive", out: `
⋮
FIELDS:
  minReadySeconds	<integer>
  paused	<boolean>
  progressDeadlineSeconds	<integer>
  replicas	<integer>
  revisionHistoryLimit	<integer>
  selector	<LabelSelector> -required-
    matchExpressions	<[]LabelSelectorRequirement>
      key	<string> -required-
      operator	<string> -required-
      values	<[]string>
    matchLabels	<map[string]string>
  strategy	<DeploymentStrategy>
    rollingUpdate	<RollingUpdateDeployment>
      maxSurge	<IntOrString>
      maxUnavailable	<IntOrString>
    type	<string>
    enum: Recreate, RollingUpdate
  template	<PodTemplateSpec> -required-
⋮
`},
		{run: "explain service.spec.type", out: "KIND: Service\nVERSION: v1\n\nFIELD: type <string>\nENUM:\n ClusterIP\n ExternalName\n LoadBalancer\n NodePort\n⋮"},
		{run: "explain networkpolicy.spec.ingress.from.namespaceSelector.matchLabels", out: "GROUP: networking.k8s.io\nKIND: NetworkPolicy\nVERSION: v1\n\nFIELD: matchLabels <map[string]string>\n⋮"},
		{run: "explain hpa --api-version=autoscaling/v2", out: "GROUP: autoscaling\nKIND: HorizontalPodAutoscaler\nVERSION: v2\n⋮"},
		{run: "explain hpa.spec.targetCPUUtilizationPercentage --api-version=autoscaling/v1", out: "GROUP: autoscaling\nKIND: HorizontalPodAutoscaler\nVERSION: v1\n\nFIELD: targetCPUUtilizationPercentage <integer>\n⋮"},
		{run: "explain events --api-version=events.k8s.io/v1", out: "GROUP: events.k8s.io\nKIND: Event\nVERSION: v1\n⋮\n  regarding	<ObjectReference>\n⋮"},
		{run: "explain pod.spec.nothing", code: 1, out: "KIND: Pod\nVERSION: v1", err: `error: field "nothing" does not exist`},
		{run: "explain nothing", code: 1, err: `the server doesn't have a resource type "nothing"`},
		{run: "explain pod --output=plaintext-openapiv2", out: "KIND: Pod\nVERSION: v1\n\nDESCRIPTION:\n⋮"},
	}
}
