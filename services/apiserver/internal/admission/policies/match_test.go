package policies_test

import (
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

// TestMatch checks which requests a policy and its binding match. The policy refuses all of them.
func TestMatch(t *testing.T) {
	const pods = `resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [pods]}]`
	labelled := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "labelled", Labels: map[string]string{"l": "x"}}}
	in := func(namespace string, verb admission.Verb, subresource string, labels ...string) *admission.Request {
		p := pod(labels...)
		p.Namespace = namespace
		return &admission.Request{Verb: verb, Object: p, Subresource: subresource}
	}
	for name, tc := range map[string]struct {
		match, bound string
		req          *admission.Request
		matches      bool
	}{
		"resource":               {match: pods, req: in("ns", admission.Create, ""), matches: true},
		"another resource":       {match: `resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [services]}]`, req: in("ns", admission.Create, "")},
		"another group":          {match: `resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: ["*"], resources: [pods]}]`, req: in("ns", admission.Create, "")},
		"another version":        {match: `resourceRules: [{apiGroups: [""], apiVersions: [v2], operations: ["*"], resources: [pods]}]`, req: in("ns", admission.Create, "")},
		"another operation":      {match: `resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [DELETE], resources: [pods]}]`, req: in("ns", admission.Create, "")},
		"a subresource":          {match: `resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [pods/status]}]`, req: in("ns", admission.Update, "status"), matches: true},
		"not a subresource":      {match: pods, req: in("ns", admission.Update, "status")},
		"the name":               {match: `resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [pods], resourceNames: [q, p]}]`, req: in("ns", admission.Create, ""), matches: true},
		"another name":           {match: `resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [pods], resourceNames: [q]}]`, req: in("ns", admission.Create, "")},
		"the scope":              {match: `resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [pods], scope: Namespaced}]`, req: in("ns", admission.Create, ""), matches: true},
		"another scope":          {match: `resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [pods], scope: Cluster}]`, req: in("ns", admission.Create, "")},
		"excluded":               {match: pods + "\n" + `excludeResourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]`, req: in("ns", admission.Create, "")},
		"excluded otherwise":     {match: pods + "\n" + `excludeResourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]`, req: in("ns", admission.Update, ""), matches: true},
		"namespace":              {match: pods + "\nnamespaceSelector: {matchLabels: {l: x}}", req: in("labelled", admission.Create, ""), matches: true},
		"another namespace":      {match: pods + "\nnamespaceSelector: {matchLabels: {l: x}}", req: in("ns", admission.Create, "")},
		"object":                 {match: pods + "\nobjectSelector: {matchExpressions: [{key: l, operator: In, values: [x]}]}", req: in("ns", admission.Create, "", "l", "x"), matches: true},
		"another object":         {match: pods + "\nobjectSelector: {matchExpressions: [{key: l, operator: In, values: [x]}]}", req: in("ns", admission.Create, "", "l", "y")},
		"binding's rules":        {match: pods, bound: pods, req: in("ns", admission.Create, ""), matches: true},
		"binding's other rules":  {match: pods, bound: `resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [pods]}]`, req: in("ns", admission.Create, "")},
		"binding's exclusion":    {match: pods, bound: "exclude" + strings.ToUpper(pods[:1]) + pods[1:], req: in("ns", admission.Create, "")},
		"binding's namespace":    {match: pods, bound: "namespaceSelector: {matchLabels: {l: x}}", req: in("labelled", admission.Create, ""), matches: true},
		"binding's other object": {match: pods, bound: "objectSelector: {matchLabels: {l: x}}", req: in("ns", admission.Create, "")},
	} {
		t.Run(name, func(t *testing.T) {
			bound := "validationActions: [Deny]"
			if tc.bound != "" {
				bound += "\nmatchResources:\n" + indented(tc.bound)
			}
			w := newWorld(t, validatingOf("p", "matchConstraints:\n"+indented(tc.match), `validations: [{expression: "false", message: m}]`)+bindingOf("b", "p", bound))
			w.Put(labelled.DeepCopy())
			want := ""
			if tc.matches {
				want = denied("m")
			}
			w.admit(tc.req).expect(t, want)
		})
	}
}

func indented(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }

// TestMatchOfAnOldObject checks that an object matches by its old labels as well, and a deletion by them
// alone.
func TestMatchOfAnOldObject(t *testing.T) {
	w := newWorld(t, validatingOf("p", `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [pods]}], objectSelector: {matchLabels: {l: x}}}`,
		`validations: [{expression: "false", message: m}]`)+bindingOf("b", "p", "validationActions: [Deny]"))
	w.admit(&admission.Request{Verb: admission.Update, Object: pod(), Old: pod("l", "x")}).expect(t, denied("m"))
	w.admit(&admission.Request{Verb: admission.Delete, Old: pod("l", "x")}).expect(t, denied("m"))
	w.admit(&admission.Request{Verb: admission.Delete, Old: pod()}).expect(t, "")
}

// TestMatchOfANamespace checks that a namespace is selected by its own labels, and is in none.
func TestMatchOfANamespace(t *testing.T) {
	w := newWorld(t, validatingOf("p", `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [namespaces], scope: Cluster}], namespaceSelector: {matchLabels: {l: x}}}`,
		`validations: [{expression: "namespaceObject != null", message: m}]`)+bindingOf("b", "p", "validationActions: [Deny]"))
	const want = `namespaces "n" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: m`
	labelled, bare := admissiontest.Namespace("n", corev1.NamespaceActive, "l", "x"), admissiontest.Namespace("n", corev1.NamespaceActive)
	w.admit(&admission.Request{Verb: admission.Create, Object: labelled}).expect(t, want)
	w.admit(&admission.Request{Verb: admission.Create, Object: bare}).expect(t, "")
	w.Put(labelled)
	w.admit(&admission.Request{Verb: admission.Update, Object: bare, Old: labelled}).expect(t, "")
	w.admit(&admission.Request{Verb: admission.Delete, Old: labelled}).expect(t, want)
}

// TestMatchPolicy checks that a policy of one version of an object applies to its other versions, in the
// form that the policy knows, unless it matches exactly.
func TestMatchPolicy(t *testing.T) {
	const exact, equivalent = "matchPolicy: Exact", "matchPolicy: Equivalent"
	cpu := int32(80)
	v1 := &autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h"}, Spec: autoscalingv1.HorizontalPodAutoscalerSpec{TargetCPUUtilizationPercentage: &cpu},
	}
	v2 := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &cpu},
		}}},
	}}
	for _, tc := range []struct {
		name, version, match string
		obj                  scheme.Object
		matches              bool
	}{
		{"the same version", "v2", exact, v2, true},
		{"another version", "v1", exact, v2, false},
		{"an equivalent version", "v1", equivalent, v2, true},
		{"an equivalent version, the other way", "v2", equivalent, v1, true},
		{"the same version, of an equivalent match", "v1", equivalent, v1, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			reads := map[string]string{
				"v1": "object.spec.targetCPUUtilizationPercentage == 80 && object.apiVersion == 'autoscaling/v1' && request.kind.version == 'v1'",
				"v2": "object.spec.metrics[0].resource.target.averageUtilization == 80 && object.apiVersion == 'autoscaling/v2' && request.resource.version == 'v2'",
			}[tc.version]
			is := tc.obj.GetObjectKind()
			is.SetGroupVersionKind(schema.GroupVersionKind{})
			w := newWorld(t, validatingOf("p", `matchConstraints: {`+tc.match+`, resourceRules: [{apiGroups: [autoscaling], apiVersions: [`+tc.version+`], operations: ["*"], resources: [horizontalpodautoscalers]}]}`,
				`validations: [{expression: "!(`+reads+`)", message: m}]`)+bindingOf("b", "p", "validationActions: [Deny]"))
			want := ""
			if tc.matches {
				want = `horizontalpodautoscalers.autoscaling "h" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: m`
			}
			w.create(tc.obj).expect(t, want)
		})
	}
}

// TestMissingNamespace checks that a policy that selects namespaces fails in one that does not exist.
func TestMissingNamespace(t *testing.T) {
	w := newWorld(t, validatingOf("p", `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [pods]}], namespaceSelector: {matchLabels: {l: x}}}`,
		`validations: [{expression: "true"}]`)+bindingOf("b", "p", "validationActions: [Deny]"))
	p := pod()
	p.Namespace = "missing"
	w.create(p).expect(t, `pods "p" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: namespaces "missing" not found`)
	w.create(configMap("p")).expect(t, "")
}
