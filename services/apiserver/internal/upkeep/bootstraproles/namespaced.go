package bootstraproles

import rbacv1 "k8s.io/api/rbac/v1"

// Namespaces with roles of their own.
const (
	system = "kube-system"
	public = "kube-public"
)

// Roles of controllers that work in one namespace.
const (
	signerRole  = controllerPrefix + "bootstrap-signer"
	cleanerRole = controllerPrefix + "token-cleaner"
)

func role(namespace, name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: meta(namespace, name), Rules: rules}
}

// bindIn binds subjects to a Role in the same namespace.
func bindIn(namespace, name, role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: meta(namespace, name), Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
	}
}

// namespaced returns the roles in the system's namespaces, and their bindings.
func namespaced() ([]*rbacv1.Role, []*rbacv1.RoleBinding) {
	const (
		readConfig  = "extension-apiserver-authentication-reader"
		lockManager = "system::leader-locking-kube-controller-manager"
		lockSched   = "system::leader-locking-kube-scheduler"
		cloud       = controllerPrefix + "cloud-provider"
	)
	lock := []rbacv1.PolicyRule{
		can(read+" create update", "coordination.k8s.io", "leases"),
		can(read+" create update", "coordination.k8s.io", "leasecandidates"),
	}
	roles := []*rbacv1.Role{
		role(system, readConfig, canOn(read, "core", "configmaps", "extension-apiserver-authentication")),
		role(system, lockManager, lock...),
		role(system, lockSched, lock...),
		role(system, signerRole, can(read, "core", "secrets")),
		role(system, cloud, can(read+" create", "core", "configmaps")),
		role(system, cleanerRole, can(read+" delete", "core", "secrets"), recordEvents()),
		role(public, signerRole,
			can(read, "core", "configmaps"),
			canOn("update", "core", "configmaps", "cluster-info"),
			recordEvents()),
	}
	manager := user(controllerManager)
	return roles, []*rbacv1.RoleBinding{
		bindIn(system, "system::"+readConfig, readConfig, manager, user(scheduler)),
		bindIn(system, lockManager, lockManager, manager, account("kube-controller-manager"), account("leader-election-controller")),
		bindIn(system, lockSched, lockSched, user(scheduler), account("kube-scheduler")),
		bindIn(system, signerRole, signerRole, account("bootstrap-signer"), manager),
		bindIn(system, cloud, cloud, account("cloud-provider")),
		bindIn(system, cleanerRole, cleanerRole, account("token-cleaner"), manager),
		bindIn(public, signerRole, signerRole, account("bootstrap-signer"), manager),
	}
}
