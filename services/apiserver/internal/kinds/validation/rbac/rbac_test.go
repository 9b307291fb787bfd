package rbac

import (
	"testing"

	"go.uber.org/goleak"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func named(name, namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace}
}

func TestRoles(t *testing.T) {
	ok := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	for name, tc := range map[string]struct {
		name          string
		rule          rbacv1.PolicyRule
		role, cluster []string
	}{
		"fine":            {name: "system:it", rule: ok},
		"a path for name": {name: "a/b", rule: ok, role: []string{`metadata.name: Invalid value: "a/b": may not contain '/'`}, cluster: []string{`metadata.name: Invalid value: "a/b": may not contain '/'`}},
		"nothing": {
			name: "r",
			role: []string{
				"rules[0].verbs: Required value",
				"rules[0].apiGroups: Required value: resource rules must supply at least one api group",
				"rules[0].resources: Required value: resource rules must supply at least one resource",
			},
			cluster: []string{
				"rules[0].verbs: Required value",
				"rules[0].apiGroups: Required value: resource rules must supply at least one api group",
				"rules[0].resources: Required value: resource rules must supply at least one resource",
			},
		},
		"a path": {
			name: "r", rule: rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}},
			role: []string{`rules[0].nonResourceURLs: Invalid value: ["/metrics"]: namespaced rules cannot apply to non-resource URLs`},
		},
		"a path and a resource": {
			name: "r", rule: rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/x"}, Resources: []string{"pods"}},
			role: []string{
				`rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs`,
				`rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs`,
			},
			cluster: []string{`rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules := []rbacv1.PolicyRule{tc.rule}
			role := &rbacv1.Role{ObjectMeta: named(tc.name, "ns"), Rules: rules}
			errortest.Exactly(t, Role(role), tc.role...)
			cluster := &rbacv1.ClusterRole{ObjectMeta: named(tc.name, ""), Rules: rules}
			errortest.Exactly(t, ClusterRole(cluster), tc.cluster...)
		})
	}
	none := &rbacv1.ClusterRole{ObjectMeta: named("r", ""), AggregationRule: &rbacv1.AggregationRule{}}
	errortest.Exactly(t, ClusterRole(none),
		"aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
	)
	none.AggregationRule.ClusterRoleSelectors = []metav1.LabelSelector{{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In"}}}}
	errortest.Exactly(t, ClusterRole(none),
		"aggregationRule.clusterRoleSelectors[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
		`aggregationRule.clusterRoleSelectors[0]: Invalid value: {"matchExpressions":[{"key":"a","operator":"In"}]}: invalid label selector.`,
	)
}

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
			errortest.Exactly(t, RoleBinding(&rbacv1.RoleBinding{ObjectMeta: named("b", "ns"), RoleRef: tc.ref, Subjects: subjects}), tc.binding...)
			errortest.Exactly(t, ClusterRoleBinding(&rbacv1.ClusterRoleBinding{ObjectMeta: named("b", ""), RoleRef: tc.ref, Subjects: subjects}), tc.cluster...)
		})
	}
	old := &rbacv1.RoleBinding{ObjectMeta: named("b", "ns"), RoleRef: role}
	changed := old.DeepCopy()
	changed.RoleRef.Name = "edit"
	old.ResourceVersion, changed.ResourceVersion = "1", "1"
	want := []string{`roleRef: Invalid value: {"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"edit"}: field is immutable`}
	errortest.Exactly(t, RoleBindingUpdate(changed, old), want...)
	oldCluster := &rbacv1.ClusterRoleBinding{ObjectMeta: named("b", ""), RoleRef: role}
	oldCluster.ResourceVersion = "1"
	changedCluster := oldCluster.DeepCopy()
	changedCluster.RoleRef.Name = "edit"
	errortest.Exactly(t, ClusterRoleBindingUpdate(changedCluster, oldCluster), want...)
	errortest.Exactly(t, ClusterRoleBindingUpdate(oldCluster, oldCluster))
}
