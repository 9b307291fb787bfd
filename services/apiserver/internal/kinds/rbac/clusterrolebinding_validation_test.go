package rbac

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestBindings(t *testing.T) {
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}
	for name, tc := range map[string]struct {
		ref              rbacv1.RoleRef
		subject          rbacv1.Subject
		binding, cluster []string
	}{
		"a user":                    {ref: role, subject: rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: "ann"}},
		"a group":                   {ref: role, subject: rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "devs"}},
		"a service account":         {ref: role, subject: rbacv1.Subject{Kind: "ServiceAccount", Namespace: "ns", Name: "bot"}},
		"a service account of here": {ref: role, subject: rbacv1.Subject{Kind: "ServiceAccount", Name: "bot"}, cluster: []string{"subjects[0].namespace: Required value"}},
		"a role": {
			ref: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "r"}, subject: rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: "a"},
			cluster: []string{`roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"`},
		},
		"nothing of a role": {
			subject: rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: "a"},
			binding: []string{
				`roleRef.apiGroup: Unsupported value: "": supported values: "rbac.authorization.k8s.io"`,
				`roleRef.kind: Unsupported value: "": supported values: "Role", "ClusterRole"`,
				"roleRef.name: Required value",
			},
			cluster: []string{
				`roleRef.apiGroup: Unsupported value: "": supported values: "rbac.authorization.k8s.io"`,
				`roleRef.kind: Unsupported value: "": supported values: "ClusterRole"`,
				"roleRef.name: Required value",
			},
		},
		"a role's bad name": {
			ref: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "a%b"}, subject: rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: "a"},
			binding: []string{`roleRef.name: Invalid value: "a%b": may not contain '%'`},
			cluster: []string{`roleRef.name: Invalid value: "a%b": may not contain '%'`},
		},
		"a bad service account": {
			ref: role, subject: rbacv1.Subject{APIGroup: "x", Kind: "ServiceAccount", Namespace: "ns", Name: "A"},
			binding: []string{
				`subjects[0].name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
				`subjects[0].apiGroup: Unsupported value: "x": supported values: ""`,
			},
			cluster: []string{
				`subjects[0].name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
				`subjects[0].apiGroup: Unsupported value: "x": supported values: ""`,
			},
		},
		"an unknown kind": {
			ref: role, subject: rbacv1.Subject{Kind: "Robot"},
			binding: []string{"subjects[0].name: Required value", `subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"`},
			cluster: []string{"subjects[0].name: Required value", `subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			subjects := []rbacv1.Subject{tc.subject}
			errortest.Exactly(t, ValidateRoleBinding(&rbacv1.RoleBinding{ObjectMeta: named("b", "ns"), RoleRef: tc.ref, Subjects: subjects}), tc.binding...)
			errortest.Exactly(t, ValidateClusterRoleBinding(&rbacv1.ClusterRoleBinding{ObjectMeta: named("b", ""), RoleRef: tc.ref, Subjects: subjects}), tc.cluster...)
		})
	}
	old := &rbacv1.RoleBinding{ObjectMeta: named("b", "ns"), RoleRef: role}
	changed := old.DeepCopy()
	changed.RoleRef.Name = "edit"
	old.ResourceVersion, changed.ResourceVersion = "1", "1"
	want := []string{`roleRef: Invalid value: {"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"edit"}: field is immutable`}
	errortest.Exactly(t, validateRoleBindingUpdate(changed, old), want...)
	oldCluster := &rbacv1.ClusterRoleBinding{ObjectMeta: named("b", ""), RoleRef: role}
	oldCluster.ResourceVersion = "1"
	changedCluster := oldCluster.DeepCopy()
	changedCluster.RoleRef.Name = "edit"
	errortest.Exactly(t, validateClusterRoleBindingUpdate(changedCluster, oldCluster), want...)
	errortest.Exactly(t, validateClusterRoleBindingUpdate(oldCluster, oldCluster))
}
