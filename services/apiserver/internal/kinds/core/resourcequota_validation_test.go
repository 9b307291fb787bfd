package core

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestResourceQuota(t *testing.T) {
	selector := func(scope corev1.ResourceQuotaScope, operator corev1.ScopeSelectorOperator, values ...string) *corev1.ScopeSelector {
		return &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{ScopeName: scope, Operator: operator, Values: values}}}
	}
	for name, tc := range map[string]struct {
		spec corev1.ResourceQuotaSpec
		want []string
	}{
		"empty": {},
		"all sorts": {spec: corev1.ResourceQuotaSpec{Hard: amounts(
			"cpu", "1", "requests.cpu", "500m", "limits.memory", "1Gi", "pods", "10", "count/deployments.apps", "5", "services.nodeports", "0",
			"requests.nvidia.com/gpu", "4", "gold.storageclass.storage.k8s.io/requests.storage", "1Gi", "hugepages-2Mi", "2Mi", "requests.hugepages-2Mi", "2Mi",
		)}},
		"an unknown name": {
			spec: corev1.ResourceQuotaSpec{Hard: amounts("rockets", "1")},
			want: []string{
				`spec.hard[rockets]: Invalid value: "rockets": must be a standard resource type or fully qualified`,
				`spec.hard[rockets]: Invalid value: "rockets": must be a standard resource for quota`,
			},
		},
		"storage, which is not for quotas": {
			spec: corev1.ResourceQuotaSpec{Hard: amounts("storage", "1")},
			want: []string{`spec.hard[storage]: Invalid value: "storage": must be a standard resource for quota`},
		},
		"less than nothing": {
			spec: corev1.ResourceQuotaSpec{Hard: amounts("cpu", "-1")},
			want: []string{`spec.hard[cpu]: Invalid value: "-1": must be greater than or equal to 0`},
		},
		"half a pod, half a device": {
			spec: corev1.ResourceQuotaSpec{Hard: amounts("pods", "500m", "example.com/gpu", "1500m")},
			want: []string{`spec.hard[example.com/gpu]: Invalid value: "1500m": must be an integer`, `spec.hard[pods]: Invalid value: "500m": must be an integer`},
		},
		"scopes": {spec: corev1.ResourceQuotaSpec{Hard: amounts("pods", "1", "limits.cpu", "1"), Scopes: []corev1.ResourceQuotaScope{"Terminating", "NotBestEffort"}}},
		"an unknown scope": {
			spec: corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{"Moon"}},
			want: []string{`spec.scopes: Invalid value: ["Moon"]: unsupported scope`},
		},
		"a scope that does not fit": {
			spec: corev1.ResourceQuotaSpec{Hard: amounts("cpu", "1", "pods", "1"), Scopes: []corev1.ResourceQuotaScope{"BestEffort"}},
			want: []string{`spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource`},
		},
		"scopes at odds": {
			spec: corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{"BestEffort", "NotBestEffort", "Terminating", "NotTerminating"}},
			want: []string{
				`spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Terminating","NotTerminating"]: conflicting scopes`,
				`spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Terminating","NotTerminating"]: conflicting scopes`,
			},
		},
		"a selector":          {spec: corev1.ResourceQuotaSpec{Hard: amounts("pods", "1"), ScopeSelector: selector("PriorityClass", "In", "high")}},
		"volume attributes":   {spec: corev1.ResourceQuotaSpec{Hard: amounts("requests.storage", "1"), ScopeSelector: selector("VolumeAttributesClass", "Exists")}},
		"an unknown selector": {spec: corev1.ResourceQuotaSpec{ScopeSelector: selector("Moon", "Exists")}, want: []string{`spec.scopeSelector.matchExpressions.scopeName: Invalid value: "Moon": unsupported scope`}},
		"a selector that does not fit": {
			spec: corev1.ResourceQuotaSpec{Hard: amounts("services", "1"), ScopeSelector: selector("PriorityClass", "Exists")},
			want: []string{`spec.scopeSelector.matchExpressions: Invalid value: {"matchExpressions":[{"scopeName":"PriorityClass","operator":"Exists"}]}: unsupported scope applied to resource`},
		},
		"a value for a flag": {
			spec: corev1.ResourceQuotaSpec{ScopeSelector: selector("BestEffort", "In", "x")},
			want: []string{`spec.scopeSelector.matchExpressions.operator: Invalid value: "In": must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity`},
		},
		"no value": {
			spec: corev1.ResourceQuotaSpec{ScopeSelector: selector("PriorityClass", "In")},
			want: []string{"spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"},
		},
		"a value too many": {
			spec: corev1.ResourceQuotaSpec{ScopeSelector: selector("PriorityClass", "Exists", "x")},
			want: []string{"spec.scopeSelector.matchExpressions.values: Invalid value: [\"x\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"},
		},
		"an unknown operator": {
			spec: corev1.ResourceQuotaSpec{ScopeSelector: selector("PriorityClass", "Near")},
			want: []string{`spec.scopeSelector.matchExpressions.operator: Invalid value: "Near": not a valid selector operator`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			errortest.Exactly(t, validateResourceQuota(&corev1.ResourceQuota{ObjectMeta: meta(), Spec: tc.spec}), tc.want...)
		})
	}
	old := &corev1.ResourceQuota{ObjectMeta: meta(), Spec: corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{"Terminating", "NotBestEffort"}}}
	changed := old.DeepCopy()
	changed.Spec.Scopes[0], changed.Spec.Scopes[1] = changed.Spec.Scopes[1], changed.Spec.Scopes[0]
	errortest.Exactly(t, validateResourceQuotaUpdate(changed, old))
	changed.Spec.Scopes = changed.Spec.Scopes[:1]
	errortest.Exactly(t, validateResourceQuotaUpdate(changed, old), `spec.scopes: Invalid value: ["NotBestEffort"]: field is immutable`)
	changed.Status = corev1.ResourceQuotaStatus{Hard: amounts("rocket", "1"), Used: amounts("pods", "-1")}
	errortest.Exactly(t, validateResourceQuotaStatus(changed, old),
		`status.hard[rocket]: Invalid value: "rocket": must be a standard resource type or fully qualified`,
		`status.hard[rocket]: Invalid value: "rocket": must be a standard resource for quota`,
		`status.used[pods]: Invalid value: "-1": must be greater than or equal to 0`)
}
