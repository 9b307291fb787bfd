package defaults

import rbacv1 "k8s.io/api/rbac/v1"

// RoleBinding sets the defaults of a role binding.
func RoleBinding(b *rbacv1.RoleBinding) {
	setString(&b.RoleRef.APIGroup, rbacv1.GroupName)
	subjects(b.Subjects)
}

// ClusterRoleBinding sets the defaults of a cluster role binding.
func ClusterRoleBinding(b *rbacv1.ClusterRoleBinding) {
	setString(&b.RoleRef.APIGroup, rbacv1.GroupName)
	subjects(b.Subjects)
}

// subjects sets the API group of users and groups.
func subjects(list []rbacv1.Subject) {
	for i := range list {
		switch list[i].Kind {
		case rbacv1.UserKind, rbacv1.GroupKind:
			setString(&list[i].APIGroup, rbacv1.GroupName)
		}
	}
}
