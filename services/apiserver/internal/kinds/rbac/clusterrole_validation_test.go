package rbac

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

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
			errortest.Exactly(t, ValidateRole(role), tc.role...)
			cluster := &rbacv1.ClusterRole{ObjectMeta: named(tc.name, ""), Rules: rules}
			errortest.Exactly(t, ValidateClusterRole(cluster), tc.cluster...)
		})
	}
	none := &rbacv1.ClusterRole{ObjectMeta: named("r", ""), AggregationRule: &rbacv1.AggregationRule{}}
	errortest.Exactly(t, ValidateClusterRole(none),
		"aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
	)
	none.AggregationRule.ClusterRoleSelectors = []metav1.LabelSelector{{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In"}}}}
	errortest.Exactly(t, ValidateClusterRole(none),
		"aggregationRule.clusterRoleSelectors[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
		`aggregationRule.clusterRoleSelectors[0]: Invalid value: {"matchExpressions":[{"key":"a","operator":"In"}]}: invalid label selector.`,
	)
}
