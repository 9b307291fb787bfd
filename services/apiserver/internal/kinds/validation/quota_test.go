package validation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

// amounts returns a resource list from pairs of name and quantity.
func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

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
			want: []string{`spec.scopeSelector.matchExpressions.operator: Invalid value: "In": must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity`},
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
			errortest.Exactly(t, ResourceQuota(&corev1.ResourceQuota{ObjectMeta: meta(), Spec: tc.spec}), tc.want...)
		})
	}
	old := &corev1.ResourceQuota{ObjectMeta: meta(), Spec: corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{"Terminating", "NotBestEffort"}}}
	changed := old.DeepCopy()
	changed.Spec.Scopes[0], changed.Spec.Scopes[1] = changed.Spec.Scopes[1], changed.Spec.Scopes[0]
	errortest.Exactly(t, ResourceQuotaUpdate(changed, old))
	changed.Spec.Scopes = changed.Spec.Scopes[:1]
	errortest.Exactly(t, ResourceQuotaUpdate(changed, old), `spec.scopes: Invalid value: ["NotBestEffort"]: field is immutable`)
	changed.Status = corev1.ResourceQuotaStatus{Hard: amounts("rocket", "1"), Used: amounts("pods", "-1")}
	errortest.Exactly(t, ResourceQuotaStatus(changed, old),
		`status.hard[rocket]: Invalid value: "rocket": must be a standard resource type or fully qualified`,
		`status.hard[rocket]: Invalid value: "rocket": must be a standard resource for quota`,
		`status.used[pods]: Invalid value: "-1": must be greater than or equal to 0`)
}

func TestLimitRange(t *testing.T) {
	for name, tc := range map[string]struct {
		item corev1.LimitRangeItem
		want []string
	}{
		"a container": {item: corev1.LimitRangeItem{
			Type: "Container", Min: amounts("cpu", "1"), DefaultRequest: amounts("cpu", "2"), Default: amounts("cpu", "3"), Max: amounts("cpu", "4"), MaxLimitRequestRatio: amounts("cpu", "4"),
		}},
		"all the same": {item: corev1.LimitRangeItem{
			Type: "Container", Min: amounts("cpu", "1"), DefaultRequest: amounts("cpu", "1"), Default: amounts("cpu", "1"), Max: amounts("cpu", "1"), MaxLimitRequestRatio: amounts("cpu", "1"),
		}},
		"a claim":      {item: corev1.LimitRangeItem{Type: "PersistentVolumeClaim", Max: amounts("storage", "1Gi")}},
		"another type": {item: corev1.LimitRangeItem{Type: "example.com/Rocket", Max: amounts("storage", "1Gi", "pods", "1")}},
		"no type": {
			want: []string{
				`spec.limits[0].type: Invalid value: "": name part must be non-empty`,
				`spec.limits[0].type: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			},
		},
		"an unknown type": {item: corev1.LimitRangeItem{Type: "Rocket"}, want: []string{`spec.limits[0].type: Invalid value: "Rocket": must be a standard limit type or fully qualified`}},
		"defaults of a pod": {
			item: corev1.LimitRangeItem{Type: "Pod", Default: amounts("cpu", "1"), DefaultRequest: amounts("cpu", "1")},
			want: []string{
				"spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
				"spec.limits[0].defaultRequest: Forbidden: may not be specified when `type` is 'Pod'",
			},
		},
		"a claim without bounds": {
			item: corev1.LimitRangeItem{Type: "PersistentVolumeClaim", Default: amounts("storage", "1Gi")},
			want: []string{"spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided"},
		},
		"resources not for containers": {
			item: corev1.LimitRangeItem{Type: "Container", Max: amounts("storage", "1"), Min: amounts("rocket", "1"), Default: amounts("requests.example.com/gpu", "1")},
			want: []string{
				`spec.limits[0].max[storage]: Invalid value: "storage": must be a standard resource for containers`,
				`spec.limits[0].min[rocket]: Invalid value: "rocket": must be a standard resource type or fully qualified`,
				`spec.limits[0].min[rocket]: Invalid value: "rocket": must be a standard resource for containers`,
				`spec.limits[0].default[requests.example.com/gpu]: Invalid value: "requests.example.com/gpu": doesn't follow extended resource name standard`,
			},
		},
		"min above max": {
			item: corev1.LimitRangeItem{Type: "Pod", Min: amounts("cpu", "2"), Max: amounts("cpu", "1")},
			want: []string{`spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1`},
		},
		"request below min": {
			item: corev1.LimitRangeItem{Type: "Container", Min: amounts("cpu", "2"), DefaultRequest: amounts("cpu", "1")},
			want: []string{`spec.limits[0].defaultRequest[cpu]: Invalid value: "1": min value 2 is greater than default request value 1`},
		},
		"request above max": {
			item: corev1.LimitRangeItem{Type: "Container", Max: amounts("cpu", "2"), DefaultRequest: amounts("cpu", "3")},
			want: []string{`spec.limits[0].defaultRequest[cpu]: Invalid value: "3": default request value 3 is greater than max value 2`},
		},
		"request above limit": {
			item: corev1.LimitRangeItem{Type: "Container", Default: amounts("cpu", "2"), DefaultRequest: amounts("cpu", "3")},
			want: []string{`spec.limits[0].defaultRequest[cpu]: Invalid value: "3": default request value 3 is greater than default limit value 2`},
		},
		"limit below min": {
			item: corev1.LimitRangeItem{Type: "Container", Min: amounts("cpu", "2"), Default: amounts("cpu", "1")},
			want: []string{`spec.limits[0].default[cpu]: Invalid value: "2": min value 2 is greater than default value 1`},
		},
		"limit above max": {
			item: corev1.LimitRangeItem{Type: "Container", Max: amounts("cpu", "2"), Default: amounts("cpu", "3")},
			want: []string{`spec.limits[0].default[cpu]: Invalid value: "2": default value 3 is greater than max value 2`},
		},
		"a ratio below one": {
			item: corev1.LimitRangeItem{Type: "Pod", MaxLimitRequestRatio: amounts("cpu", "800m")},
			want: []string{`spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "800m": ratio 800m is less than 1`},
		},
		"a ratio that cannot be": {
			item: corev1.LimitRangeItem{Type: "Pod", Min: amounts("cpu", "1"), Max: amounts("cpu", "2"), MaxLimitRequestRatio: amounts("cpu", "10")},
			want: []string{`spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "10": ratio 10 is greater than max/min = 2.000000`},
		},
		"a huge ratio that cannot be": {
			item: corev1.LimitRangeItem{Type: "Pod", Min: amounts("memory", "4Pi"), Max: amounts("memory", "8Pi"), MaxLimitRequestRatio: amounts("memory", "3")},
			want: []string{`spec.limits[0].maxLimitRequestRatio[memory]: Invalid value: "3": ratio 3 is greater than max/min = 2.000000`},
		},
		"a device asked for in part": {
			item: corev1.LimitRangeItem{Type: "Container", Default: amounts("example.com/gpu", "2"), DefaultRequest: amounts("example.com/gpu", "1")},
			want: []string{`spec.limits[0].defaultRequest[example.com/gpu]: Invalid value: "1": default value 2 must equal to defaultRequest value 1 in example.com/gpu`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := &corev1.LimitRange{ObjectMeta: meta(), Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{tc.item}}}
			errortest.Exactly(t, LimitRange(l), tc.want...)
			errortest.Exactly(t, LimitRangeUpdate(l, l), tc.want...)
		})
	}
	twice := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "ns"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: "Pod"}, {Type: "Pod"}}}}
	errortest.Exactly(t, LimitRange(twice), `spec.limits[1].type: Duplicate value: "Pod"`)
}
