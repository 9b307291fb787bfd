package bootstraproles

import rbacv1 "k8s.io/api/rbac/v1"

// Signers of certificates.
const (
	signClient        = "kubernetes.io/kube-apiserver-client"
	signKubeletClient = "kubernetes.io/kube-apiserver-client-kubelet"
	signKubelet       = "kubernetes.io/kubelet-serving"
	signLegacy        = "kubernetes.io/legacy-unknown"
	signServing       = "kubernetes.io/kube-apiserver-serving"
)

// NodeRules returns what the node authorizer allows every node to do with resources that don't
// belong to a node. The role system:node, which is bound to no user, has the same rules.
func NodeRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		can("create", "authentication.k8s.io", "tokenreviews"),
		can("create", "authorization.k8s.io", "subjectaccessreviews", "localsubjectaccessreviews"),
		can(read, "core", "services"),
		can("create get list watch", "core", "nodes"),
		can("update patch", "core", "nodes/status"),
		can("update patch", "core", "nodes"),
		recordEvents(),
		can(read, "core", "pods"),
		can("create delete", "core", "pods"),
		can("update patch", "core", "pods/status"),
		can("create", "core", "pods/eviction"),
		can(read, "core", "secrets", "configmaps"),
		can("get", "core", "persistentvolumeclaims", "persistentvolumes"),
		can("get", "core", "endpoints"),
		can("create "+read, "certificates.k8s.io", "certificatesigningrequests"),
		can("get create update patch delete", "coordination.k8s.io", "leases"),
		can("get", "storage.k8s.io", "volumeattachments"),
		can("create", "core", "serviceaccounts/token"),
		can("get update patch", "core", "persistentvolumeclaims/status"),
		can(read, "storage.k8s.io", "csidrivers"),
		can("get create update patch delete", "storage.k8s.io", "csinodes"),
		can(read, "node.k8s.io", "runtimeclasses"),
		can("get", "resource.k8s.io", "resourceclaims"),
		can("deletecollection", "resource.k8s.io", "resourceslices"),
		can(read, "certificates.k8s.io", "clustertrustbundles"),
		can("create "+read, "certificates.k8s.io", "podcertificaterequests"),
		can("get", "core", "serviceaccounts"),
	}
}

// forParts returns the roles of the plane's components except the controllers.
func forParts() []*rbacv1.ClusterRole {
	return []*rbacv1.ClusterRole{
		clusterRole("system:node", NodeRules()...),
		clusterRole("system:node-problem-detector",
			can("get", "core", "nodes"),
			can("patch", "core", "nodes/status"),
			recordEvents(),
		),
		clusterRole("system:node-bootstrapper", can("create "+read, "certificates.k8s.io", "certificatesigningrequests")),
		clusterRole("system:node-proxier",
			can("list watch", "core", "services", "endpoints"),
			can(read, "core", "nodes"),
			recordEvents(),
			can("list watch", "networking.k8s.io", "servicecidrs"),
			can("list watch", "discovery.k8s.io", "endpointslices"),
		),
		clusterRole("system:kubelet-api-admin",
			can(read, "core", "nodes"),
			can("proxy", "core", "nodes"),
			can("*", "core", "nodes/proxy", "nodes/metrics", "nodes/stats", "nodes/log"),
			can("*", "core", "nodes/configz", "nodes/healthz", "nodes/pods"),
		),
		clusterRole("system:auth-delegator",
			can("create", "authentication.k8s.io", "tokenreviews"),
			can("create", "authorization.k8s.io", "subjectaccessreviews"),
		),
		clusterRole("system:kube-aggregator", can(read, "core", "services", "endpoints")),
		clusterRole("system:kube-dns", can("list watch", "core", "endpoints", "services")),
		clusterRole("system:heapster",
			can(read, "core", "events", "pods", "nodes", "namespaces"),
			can(read, "extensions", "deployments"),
		),
		clusterRole("system:persistent-volume-provisioner",
			can(read+" create delete", "core", "persistentvolumes"),
			can(read+" update", "core", "persistentvolumeclaims"),
			can(read, "storage.k8s.io", "storageclasses"),
			can("watch", "core", "events"),
			recordEvents(),
		),
		clusterRole("system:volume-scheduler",
			can(read+" update patch", "core", "persistentvolumes"),
			can(read, "storage.k8s.io", "storageclasses"),
			can(read+" update patch", "core", "persistentvolumeclaims"),
		),
		clusterRole("system:kube-controller-manager", forControllerManager()...),
		clusterRole("system:kube-scheduler", forScheduler()...),
		clusterRole("system:cluster-trust-bundle-discovery", can(read, "certificates.k8s.io", "clustertrustbundles")),
		clusterRole("system:certificates.k8s.io:certificatesigningrequests:nodeclient",
			can("create", "certificates.k8s.io", "certificatesigningrequests/nodeclient")),
		clusterRole("system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
			can("create", "certificates.k8s.io", "certificatesigningrequests/selfnodeclient")),
		clusterRole("system:certificates.k8s.io:legacy-unknown-approver", canOn("approve", "certificates.k8s.io", "signers", signLegacy)),
		clusterRole("system:certificates.k8s.io:kubelet-serving-approver", canOn("approve", "certificates.k8s.io", "signers", signKubelet)),
		clusterRole("system:certificates.k8s.io:kube-apiserver-client-approver", canOn("approve", "certificates.k8s.io", "signers", signClient)),
		clusterRole("system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
			canOn("approve", "certificates.k8s.io", "signers", signKubeletClient)),
	}
}

func forControllerManager() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		recordEvents(),
		can("create", "coordination.k8s.io", "leases"),
		canOn("get update", "coordination.k8s.io", "leases", "kube-controller-manager"),
		can("create", "core", "secrets", "serviceaccounts"),
		can("delete", "core", "secrets"),
		can("get", "core", "namespaces", "secrets", "serviceaccounts", "configmaps"),
		can("update", "core", "secrets", "serviceaccounts"),
		can("create", "authentication.k8s.io", "tokenreviews"),
		can("create", "authorization.k8s.io", "subjectaccessreviews"),
		// The garbage collector and the quota and namespace controllers follow all resources.
		can("list watch", "*", "*"),
		can("create", "core", "serviceaccounts/token"),
	}
}

func forScheduler() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		recordEvents(),
		can("create", "coordination.k8s.io", "leases"),
		canOn("get list update watch", "coordination.k8s.io", "leases", "kube-scheduler"),
		can(readWrite, "coordination.k8s.io", "leasecandidates"),
		can(read, "core", "nodes"),
		can(read+" delete", "core", "pods"),
		can("create", "core", "pods/binding", "bindings"),
		can("patch update", "core", "pods/status"),
		can(read, "core", "services", "replicationcontrollers"),
		can(read, "apps extensions", "replicasets"),
		can(read, "apps", "statefulsets"),
		can(read, "policy", "poddisruptionbudgets"),
		can(read, "core", "persistentvolumeclaims", "persistentvolumes"),
		can("create", "authentication.k8s.io", "tokenreviews"),
		can("create", "authorization.k8s.io", "subjectaccessreviews"),
		can(read, "storage.k8s.io", "csinodes"),
		can(read, "storage.k8s.io", "volumeattachments"),
		can(read, "core", "namespaces"),
		can(read, "storage.k8s.io", "csidrivers"),
		can(read, "storage.k8s.io", "csistoragecapacities"),
		can(read, "resource.k8s.io", "deviceclasses"),
		can(read+" patch update", "resource.k8s.io", "resourceclaims"),
		can(read+" patch update", "resource.k8s.io", "resourceclaims/status"),
		can("create delete", "resource.k8s.io", "resourceclaims"),
		can("patch update", "resource.k8s.io", "resourceclaims/binding"),
		can("update", "core", "pods/finalizers"),
		can(read, "resource.k8s.io", "resourceslices"),
		can(read, "resource.k8s.io", "devicetaintrules"),
	}
}
