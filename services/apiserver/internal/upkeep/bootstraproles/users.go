package bootstraproles

import rbacv1 "k8s.io/api/rbac/v1"

// forUsers returns the roles of people and programs that are not part of the plane.
func forUsers() []*rbacv1.ClusterRole {
	return []*rbacv1.ClusterRole{
		clusterRole("cluster-admin",
			can("*", "*", "*"),
			rbacv1.PolicyRule{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
		),
		clusterRole("system:discovery", canReach(
			"/livez", "/readyz", "/healthz", "/version", "/version/", "/openapi", "/openapi/*", "/api", "/api/*", "/apis", "/apis/*")),
		clusterRole("system:monitoring", canReach(
			"/metrics", "/metrics/slis", "/livez", "/readyz", "/healthz", "/livez/*", "/readyz/*", "/healthz/*",
			"/flagz", "/statusz"),
			can("get", "core", "nodes/metrics"),
		),
		clusterRole("system:public-info-viewer", canReach("/livez", "/readyz", "/healthz", "/version", "/version/")),
		clusterRole("system:basic-user",
			can("create", "authorization.k8s.io", "selfsubjectaccessreviews", "selfsubjectrulesreviews"),
			can("create", "authentication.k8s.io", "selfsubjectreviews"),
		),
		clusterRole("system:service-account-issuer-discovery", canReach(
			"/.well-known/openid-configuration", "/.well-known/openid-configuration/", "/openid/v1/jwks", "/openid/v1/jwks/")),
		aggregated("admin"),
		aggregate(aggregated("edit"), "admin"),
		aggregate(aggregated("view"), "edit"),
		aggregate(clusterRole("system:aggregate-to-admin",
			can("create", "authorization.k8s.io", "localsubjectaccessreviews"),
			can(readWrite, rbacv1.GroupName, "roles", "rolebindings"),
		), "admin"),
		aggregate(clusterRole("system:aggregate-to-edit", toEdit()...), "edit"),
		aggregate(clusterRole("system:aggregate-to-view", toView()...), "view"),
	}
}

// forMetrics returns the role by which users who may view a namespace see what its pods use. It lets what
// metrics-server's does, and has a name of its own: Helm refuses to install a role that exists.
func forMetrics() *rbacv1.ClusterRole {
	role := clusterRole("system:garboard:aggregated-metrics-reader", can(read, "metrics.k8s.io", "nodes", "pods"))
	for _, into := range []string{"view", "edit", "admin"} {
		aggregate(role, into)
	}
	return role
}

// toEdit returns what a user of a namespace may change. A user who may change pods and read secrets
// can act as any service account of the namespace.
func toEdit() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		can(read, "core", "pods/attach", "pods/proxy", "pods/exec", "pods/portforward", "secrets", "services/proxy"),
		can("impersonate", "core", "serviceaccounts"),
		can(write, "core", "pods", "pods/attach", "pods/proxy", "pods/exec", "pods/portforward"),
		can("create", "core", "pods/eviction"),
		can(write, "core", "replicationcontrollers", "replicationcontrollers/scale", "serviceaccounts",
			"services", "services/proxy", "persistentvolumeclaims", "configmaps", "secrets"),
		can("create", "core", "serviceaccounts/token"),
		can(write, "core events.k8s.io", "events"),
		can(write, "apps", "statefulsets", "statefulsets/scale", "daemonsets", "deployments", "deployments/scale",
			"deployments/rollback", "replicasets", "replicasets/scale"),
		can(write, "autoscaling", "horizontalpodautoscalers"),
		can(write, "batch", "jobs", "cronjobs"),
		can(write, "extensions", "daemonsets", "deployments", "deployments/scale", "deployments/rollback", "ingresses",
			"replicasets", "replicasets/scale", "replicationcontrollers/scale", "networkpolicies"),
		can(write, "policy", "poddisruptionbudgets"),
		can(write, "networking.k8s.io", "networkpolicies", "ingresses"),
		can(readWrite, "coordination.k8s.io", "leases"),
		can(write, "resource.k8s.io", "resourceclaims", "resourceclaimtemplates"),
	}
}

// toView returns what a user of a namespace may see: everything except what would let the user gain
// more rights.
func toView() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		can(read, "core", "pods", "replicationcontrollers", "replicationcontrollers/scale", "serviceaccounts", "services",
			"services/status", "endpoints", "persistentvolumeclaims", "persistentvolumeclaims/status", "configmaps"),
		can(read, "core", "limitranges", "resourcequotas", "bindings", "pods/status", "resourcequotas/status",
			"namespaces/status", "replicationcontrollers/status", "pods/log"),
		// In a RoleBinding this is the namespace itself.
		can(read, "core", "namespaces"),
		can(read, "core events.k8s.io", "events"),
		can(read, "discovery.k8s.io", "endpointslices"),
		can(read, "apps", "controllerrevisions", "statefulsets", "statefulsets/status", "statefulsets/scale", "daemonsets",
			"daemonsets/status", "deployments", "deployments/status", "deployments/scale", "replicasets", "replicasets/status",
			"replicasets/scale"),
		can(read, "autoscaling", "horizontalpodautoscalers", "horizontalpodautoscalers/status"),
		can(read, "batch", "jobs", "cronjobs", "cronjobs/status", "jobs/status"),
		can(read, "extensions", "daemonsets", "daemonsets/status", "deployments", "deployments/scale", "deployments/status",
			"ingresses", "ingresses/status", "replicasets", "replicasets/scale", "replicasets/status",
			"replicationcontrollers/scale", "networkpolicies"),
		can(read, "policy", "poddisruptionbudgets", "poddisruptionbudgets/status"),
		can(read, "networking.k8s.io", "networkpolicies", "ingresses", "ingresses/status"),
		can(read, "resource.k8s.io", "resourceclaims", "resourceclaims/status", "resourceclaimtemplates"),
	}
}
