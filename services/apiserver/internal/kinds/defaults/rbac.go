package defaults

import rbacv1 "k8s.io/api/rbac/v1"

// RoleBinding fills a role binding.
func RoleBinding(b *rbacv1.RoleBinding) {
	setString(&b.RoleRef.APIGroup, rbacv1.GroupName)
	subjects(b.Subjects)
}

// ClusterRoleBinding fills a cluster role binding.
func ClusterRoleBinding(b *rbacv1.ClusterRoleBinding) {
	setString(&b.RoleRef.APIGroup, rbacv1.GroupName)
	subjects(b.Subjects)
}

// subjects of a known kind need not say the group to which it belongs.
func subjects(list []rbacv1.Subject) {
	for i := range list {
		switch list[i].Kind {
		case rbacv1.UserKind, rbacv1.GroupKind:
			setString(&list[i].APIGroup, rbacv1.GroupName)
		}
	}
}
