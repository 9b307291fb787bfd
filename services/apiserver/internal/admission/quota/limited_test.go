package quota

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

const limitedHead = "apiVersion: apiserver.config.k8s.io/v1\nkind: ResourceQuotaConfiguration\nlimitedResources:\n"

// TestLimitedResources writes what needs a quota, with and without one that covers it.
func TestLimitedResources(t *testing.T) {
	class := func(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.PriorityClassName = name } }
	cpu := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	}
	limit := func(hard map[corev1.ResourceName]string, change ...func(*corev1.ResourceQuota)) *corev1.ResourceQuota {
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q"}}
		q.Status.Hard, q.Status.Used = corev1.ResourceList{}, corev1.ResourceList{}
		for name, value := range hard {
			q.Status.Hard[name], q.Status.Used[name] = resource.MustParse(value), resource.MustParse("0")
		}
		for _, c := range change {
			c(q)
		}
		return q
	}
	ofClass := func(names ...string) func(*corev1.ResourceQuota) {
		return func(q *corev1.ResourceQuota) {
			q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
				{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: names},
			}}
		}
	}
	type hard = map[corev1.ResourceName]string
	const (
		cpuLimited  = "- {resource: pods, matchContains: [cpu]}"
		allLimited  = "- {resource: pods, matchContains: [cpu, pods]}"
		classScoped = "- {resource: pods, matchScopes: [{scopeName: PriorityClass, operator: In, values: [high]}]}"
		refused     = `pods "p" is forbidden: insufficient quota to consume: `
	)
	update := func(now, old *corev1.Pod) *admission.Request {
		return &admission.Request{Verb: admission.Update, Subresource: "resize", Object: now, Old: old}
	}
	for _, tc := range []struct {
		name, limits string
		quota        *corev1.ResourceQuota
		req          *admission.Request
		want         string
	}{
		{"nothing limited", "[]", nil, &admission.Request{Object: admissiontest.Pod(cpu)}, ""},
		{"without a quota", cpuLimited, nil, &admission.Request{Object: admissiontest.Pod(cpu)}, refused + "cpu,requests.cpu"},
		{"a pod without the resource", cpuLimited, nil, &admission.Request{Object: admissiontest.Pod()}, ""},
		{"two resources", allLimited, nil, &admission.Request{Object: admissiontest.Pod(cpu)}, refused + "count/pods,cpu,pods,requests.cpu"},
		{"covered", "- {resource: pods, matchContains: [requests.cpu]}", limit(hard{"requests.cpu": "2"}), &admission.Request{Object: admissiontest.Pod(cpu)}, ""},
		{"covered and exceeded", "- {resource: pods, matchContains: [requests.cpu]}", limit(hard{"requests.cpu": "500m"}), &admission.Request{Object: admissiontest.Pod(cpu)},
			`pods "p" is forbidden: exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=0, limited: requests.cpu=500m`},
		{"a quota of another resource", "- {resource: pods, matchContains: [requests.cpu]}", limit(hard{"pods": "1"}), &admission.Request{Object: admissiontest.Pod(cpu)}, refused + "requests.cpu"},
		{"a quota that cannot measure", cpuLimited, limit(hard{"requests.memory": "1"}), &admission.Request{Object: admissiontest.Pod(cpu)},
			`pods "p" is forbidden: failed quota: q: must specify requests.memory for: c`},
		{"another kind", "- {resource: services, matchContains: [cpu]}", nil, &admission.Request{Object: admissiontest.Pod(cpu)}, ""},
		{"another group", "- {apiGroup: apps, resource: pods, matchContains: [cpu]}", nil, &admission.Request{Object: admissiontest.Pod(cpu)}, ""},
		{"a dry run", cpuLimited, nil, &admission.Request{Object: admissiontest.Pod(cpu), DryRun: true}, refused + "cpu,requests.cpu"},
		{"an update that uses no more", cpuLimited, nil, update(admissiontest.Pod(cpu), admissiontest.Pod(cpu)), ""},
		{"an update that uses more", cpuLimited, nil, update(admissiontest.Pod(cpu), admissiontest.Pod()), refused + "cpu,requests.cpu"},
		{"a scope without a quota", classScoped, nil, &admission.Request{Object: admissiontest.Pod(class("high"))}, "insufficient quota to match these scopes: [{PriorityClass In [high]}]"},
		{"another class", classScoped, nil, &admission.Request{Object: admissiontest.Pod(class("low"))}, ""},
		{"a scope with a quota", classScoped, limit(hard{"pods": "1"}, ofClass("high")), &admission.Request{Object: admissiontest.Pod(class("high"))}, ""},
		{"a scope with a quota of another scope", classScoped, limit(hard{"pods": "1"}, func(q *corev1.ResourceQuota) {
			q.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeNotTerminating}
		}), &admission.Request{Object: admissiontest.Pod(class("high"))}, "insufficient quota to match these scopes: [{PriorityClass In [high]}]"},
		{"a scope with a quota of another class", classScoped, limit(hard{"pods": "1"}, ofClass("low")), &admission.Request{Object: admissiontest.Pod(class("high"))},
			"insufficient quota to match these scopes: [{PriorityClass In [high]}]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := admissiontest.New()
			if tc.quota != nil {
				w.Put(tc.quota)
			}
			text := limitedHead + tc.limits
			if tc.limits == "[]" {
				text = strings.TrimSuffix(limitedHead, "\n") + " []"
			}
			p, err := Plugin(w.Objects(), []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if _, err := w.Admit(t, tc.req, p); err != nil {
				got = err.Error()
				if scoped := strings.Contains(got, "scopes"); scoped == apierrors.IsForbidden(err) {
					t.Errorf("the reason is %q", apierrors.ReasonForError(err))
				}
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestFaultyLimits(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"apiVersion: resourcequota.admission.k8s.io/v1beta1\nkind: Configuration\nlimitedResources: [{resource: pods}]": "",
		limitedHead + "- {matchContains: [cpu]}":                                                 "limitedResources[0].resource: Required value",
		limitedHead + "- {resource: pods, contains: [cpu]}":                                      `unknown field "limitedResources[0].contains"`,
		"apiVersion: resourcequota.admission.k8s.io/v1\nkind: Configuration\n":                   "known are kind ResourceQuotaConfiguration",
		"apiVersion: resourcequota.admission.k8s.io/v1beta1\nkind: Configuration\nlimited: []\n": "unknown field",
	} {
		_, err := Plugin(admission.Objects{Table: admissiontest.New().Table}, []byte(text))
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
