package policies_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// mutatingOf returns a MutatingAdmissionPolicy of pods, and its binding of the same name. spec is more of
// the policy's spec, and bound more of the binding's.
func mutatingOf(name, spec, bound string) string {
	rules := `matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: [pods, pods/*, rules]}]}`
	parts := []string{"reinvocationPolicy: Never", rules, spec}
	bounds := []string{"policyName: " + name}
	if bound != "" {
		bounds = append(bounds, bound)
	}
	return document("MutatingAdmissionPolicy", name, parts...) + document("MutatingAdmissionPolicyBinding", name, bounds...)
}

// applying and patching return the mutations of a policy.
func applying(expressions ...string) string {
	return mutations("ApplyConfiguration", "applyConfiguration", expressions)
}
func patching(expressions ...string) string { return mutations("JSONPatch", "jsonPatch", expressions) }

func mutations(kind, field string, expressions []string) string {
	var all []string
	for _, e := range expressions {
		all = append(all, fmt.Sprintf("{patchType: %s, %s: {expression: %q}}", kind, field, e))
	}
	return "mutations: [" + strings.Join(all, ", ") + "]"
}

// TestMutations checks what mutations make of a pod with the container c.
func TestMutations(t *testing.T) {
	labels := func(labels ...string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels = pod(labels...).Labels }
	}
	for name, tc := range map[string]struct {
		spec, bound string
		labels      []string
		want        func(*corev1.Pod)
		err         string // after "denied request: "
	}{
		"apply a label": {spec: applying(`Object{metadata: Object.metadata{labels: {'a': 'x'}}}`), labels: []string{"b", "y"}, want: labels("a", "x", "b", "y")},
		"apply to a list with keys": {
			spec: applying(`Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', image: 'i'}, Object.spec.containers{name: 'd'}]}}`),
			want: func(p *corev1.Pod) {
				p.Spec.Containers[0].Image = "i"
				p.Spec.Containers = append(p.Spec.Containers, *containerWithDefaults("d"))
			},
		},
		"apply what exists":          {spec: applying(`Object{metadata: Object.metadata{labels: object.metadata.labels}}`), labels: []string{"b", "y"}, want: labels("b", "y")},
		"apply in order":             {spec: applying(`Object{metadata: Object.metadata{labels: {'a': 'x'}}}`, `Object{metadata: Object.metadata{labels: {'b': object.metadata.labels.a + '!'}}}`), want: labels("a", "x", "b", "x!")},
		"apply an atomic list":       {spec: applying(`Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', command: ['sh']}]}}`), err: "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.containers[0].command"},
		"apply an unknown field":     {spec: applying(`Object{spec: Object.spec{nothing: 'x'}}`), err: "error applying patch: failed to convert patch object to typed object: .spec.nothing: field not declared in schema"},
		"apply with a wrong type":    {spec: applying(`Object{spec: Object.metadata{}}`), err: "type mismatch: unexpected type name \"Object.metadata\", expected \"Object.spec\", which matches field name path from root Object type"},
		"patch":                      {spec: patching(`[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'x'}}]`), want: labels("a", "x")},
		"patch of several":           {spec: patching(`[JSONPatch{op: 'replace', path: '/metadata/labels/b', value: 'z'}, JSONPatch{op: 'copy', from: '/metadata/labels/b', path: '/metadata/labels/' + jsonpatch.escapeKey('k/l')}]`), labels: []string{"b", "y"}, want: labels("b", "z", "k/l", "z")},
		"patch with an object":       {spec: patching(`[JSONPatch{op: 'add', path: '/spec/containers/-', value: Object.spec.containers{name: 'd'}}]`), want: func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, *containerWithDefaults("d")) }},
		"patch whose test fails":     {spec: patching(`[JSONPatch{op: 'test', path: '/metadata/name', value: 'q'}, JSONPatch{op: 'remove', path: '/metadata/labels/b'}]`), labels: []string{"b", "y"}, want: labels("b", "y")},
		"patch of nothing":           {spec: patching(`[JSONPatch{op: 'remove', path: '/metadata/labels/b'}]`), err: "JSON Patch: remove operation does not apply: doc is missing path: \"/metadata/labels/b\": missing value"},
		"no patch":                   {spec: patching(`[]`), err: "must evaluate to list(JSONPatch) but got list(dyn)"},
		"variables":                  {spec: "variables: [{name: v, expression: \"'of ' + object.metadata.name\"}]\n" + applying(`Object{metadata: Object.metadata{labels: {'a': variables.v}}}`), want: labels("a", "of p")},
		"parameters":                 {spec: "paramKind: {apiVersion: v1, kind: ConfigMap}\n" + applying(`Object{metadata: Object.metadata{labels: {'a': string(params.data.v)}}}`), bound: "paramRef: {name: m, parameterNotFoundAction: Deny}", want: labels("a", "one")},
		"missing parameters":         {spec: "paramKind: {apiVersion: v1, kind: ConfigMap}\n" + patching(`[]`), bound: "paramRef: {name: missing, parameterNotFoundAction: Deny}", err: "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"},
		"each of several parameters": {spec: "paramKind: {apiVersion: v1, kind: ConfigMap}\n" + patching(`[JSONPatch{op: 'add', path: '/metadata/labels/' + string(params.metadata.name), value: 'x'}]`), bound: "paramRef: {selector: {}, parameterNotFoundAction: Deny}", labels: []string{"b", "y"}, want: labels("b", "y", "m", "x", "m2", "x")},
		"namespaceObject and user":   {spec: applying(`Object{metadata: Object.metadata{labels: {'a': namespaceObject.metadata.name + request.userInfo.username}}}`), want: labels("a", "nsalice")},
		"authorizer":                 {spec: applying(`Object{metadata: Object.metadata{labels: {'a': string(authorizer.requestResource.check('get').allowed())}}}`), want: labels("a", "false")},
		"match condition":            {spec: `matchConditions: [{name: a, expression: "!has(object.metadata.labels.b)"}]` + "\n" + applying(`Object{metadata: Object.metadata{labels: {'a': 'x'}}}`), labels: []string{"b", "y"}, want: labels("b", "y")},
		"match condition that fails": {spec: `matchConditions: [{name: a, expression: "object.no == 1"}]` + "\n" + patching(`[]`), err: "expression 'object.no == 1' resulted in error: no such key: no"},
		"binding's object selector":  {spec: applying(`Object{metadata: Object.metadata{labels: {'a': 'x'}}}`), bound: "matchResources: {objectSelector: {matchLabels: {b: z}}}", labels: []string{"b", "y"}, want: labels("b", "y")},
		"an error":                   {spec: applying(`Object{metadata: Object.metadata{labels: {'a': string(object.no)}}}`), err: `expression 'Object{metadata: Object.metadata{labels: {'a': string(object.no)}}}' resulted in error: no such key: no`},
		"an error, ignored":          {spec: "failurePolicy: Ignore\n" + applying(`Object{metadata: Object.metadata{labels: {'a': string(object.no)}}}`, `Object{metadata: Object.metadata{labels: {'b': 'x'}}}`), want: labels("b", "x")},
		"a default":                  {spec: patching(`[JSONPatch{op: 'remove', path: '/spec/restartPolicy'}]`), want: func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, mutatingOf("p", tc.spec, tc.bound))
			w.put(configMap("m", "v", "one"))
			w.put(configMap("m2", "v", "two"))
			p := pod(tc.labels...)
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			w.definitions().Complete(p)
			want := p.DeepCopy()
			got := w.create(p)
			if tc.err != "" {
				got.expect(t, "policy 'p' with binding 'p' denied request: "+tc.err)
				return
			}
			got.expect(t, "")
			tc.want(want)
			want.TypeMeta = p.TypeMeta
			if diff := cmp.Diff(want, p); diff != "" {
				t.Errorf("the pod (-want +got):\n%s", diff)
			}
		})
	}
}

func containerWithDefaults(name string) *corev1.Container {
	return &corev1.Container{
		Name: name, TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile, ImagePullPolicy: corev1.PullIfNotPresent,
	}
}

// TestMutationRefused checks the status of a refusal by mutating policies: all failures are its causes.
func TestMutationRefused(t *testing.T) {
	w := newWorld(t, mutatingOf("b", "paramKind: {apiVersion: example.com/v1, kind: Rule}\n"+patching(`[]`), "paramRef: {name: missing, parameterNotFoundAction: Deny}")+
		mutatingOf("a", patching(`[JSONPatch{op: 'remove', path: '/no'}]`), ""))
	got := w.create(pod())
	status := statusOf(t, got.err)
	const first = `policy "b" denied request: failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Rule'`
	const second = `policy 'a' with binding 'a' denied request: JSON Patch: error in remove for path: '/no': Unable to remove nonexistent key: no: missing value`
	want := metav1.Status{
		Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden, Message: first,
		Details: &metav1.StatusDetails{Name: "p", Kind: "pods", Causes: []metav1.StatusCause{{Message: first}, {Message: second}}},
	}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("the status (-want +got):\n%s", diff)
	}
}

// TestMutationOfDeletions checks that there is nothing to mutate in a deletion.
func TestMutationOfDeletions(t *testing.T) {
	w := newWorld(t, mutatingOf("p", applying(`Object{metadata: Object.metadata{labels: {'a': string(object.no)}}}`), ""))
	w.admit(&admission.Request{Verb: admission.Delete, Old: pod()}).expect(t, "")
}

// TestMutationOfOtherForms checks that policies of different versions of an object change the same one.
func TestMutationOfOtherForms(t *testing.T) {
	of := func(name, version, expression string) string {
		return document("MutatingAdmissionPolicy", name, "reinvocationPolicy: Never",
			`matchConstraints: {resourceRules: [{apiGroups: [autoscaling], apiVersions: [`+version+`], operations: ["*"], resources: [horizontalpodautoscalers]}]}`,
			applying(expression)) + document("MutatingAdmissionPolicyBinding", name, "policyName: "+name)
	}
	w := newWorld(t, of("a", "v1", "Object{spec: Object.spec{targetCPUUtilizationPercentage: 70}}")+
		of("b", "v2", "Object{metadata: Object.metadata{labels: {'metrics': string(size(object.spec.metrics))}}}")+
		of("c", "v1", "Object{metadata: Object.metadata{labels: {'cpu': string(object.spec.targetCPUUtilizationPercentage)}}}"))
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h"}}
	w.create(h).expect(t, "")
	if diff := cmp.Diff(map[string]string{"metrics": "1", "cpu": "70"}, h.Labels); diff != "" {
		t.Errorf("the labels (-want +got):\n%s", diff)
	}
	if len(h.Spec.Metrics) != 1 || *h.Spec.Metrics[0].Resource.Target.AverageUtilization != 70 {
		t.Errorf("got the metrics %+v", h.Spec.Metrics)
	}
}

// TestMutationOfCustomObjects checks that objects without a Go type are changed as well.
func TestMutationOfCustomObjects(t *testing.T) {
	w := paramsWorld(t, mutatingOf("p", applying(`Object{spec: Object.spec{min: 1}}`), "")+
		mutatingOf("q", patching(`[JSONPatch{op: 'replace', path: '/spec/max', value: object.spec.max + object.spec.min}]`), ""))
	rule := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Rule", "metadata": map[string]any{"name": "x"}, "spec": map[string]any{"max": int64(3)},
	}}
	w.create(rule).expect(t, "")
	if diff := cmp.Diff(map[string]any{"max": int64(4), "min": int64(1)}, rule.Object["spec"]); diff != "" {
		t.Errorf("the spec (-want +got):\n%s", diff)
	}
}

// TestReinvocation checks which policies are applied again after a change. Each appends its name to a label.
func TestReinvocation(t *testing.T) {
	mark := func(name string) string {
		return patching(fmt.Sprintf(`[JSONPatch{op: 'add', path: '/metadata/labels/l', value: (has(object.metadata.labels.l) ? object.metadata.labels.l : '') + '%s'}]`, name))
	}
	const again = "reinvocationPolicy: IfNeeded\n"
	for name, tc := range map[string]struct {
		documents string
		plugin    string // What another plugin appends, at each run.
		want      string
	}{
		"never":                     {documents: mutatingOf("a", mark("a"), "") + mutatingOf("b", mark("b"), ""), want: "ab"},
		"if needed":                 {documents: mutatingOf("a", again+mark("a"), "") + mutatingOf("b", mark("b"), ""), want: "aba"},
		"both":                      {documents: mutatingOf("a", again+mark("a"), "") + mutatingOf("b", again+mark("b"), ""), want: "abab"},
		"the other one":             {documents: mutatingOf("a", mark("a"), "") + mutatingOf("b", again+mark("b"), ""), want: "abb"},
		"after another plugin":      {documents: mutatingOf("a", again+mark("a"), ""), plugin: "-", want: "-a-a"},
		"after a plugin, not again": {documents: mutatingOf("a", mark("a"), ""), plugin: "-", want: "-a-"},
		"no change":                 {documents: mutatingOf("a", again+`matchConditions: [{name: never, expression: "false"}]`+"\n"+mark("a"), ""), plugin: "-", want: "-"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.documents)
			if tc.plugin != "" {
				w.chain = admission.NewChain(admission.Plugin{Mutate: func(_ context.Context, req *admission.Request) error {
					labels := req.Object.GetLabels()
					labels["l"] += tc.plugin
					req.Object.SetLabels(labels)
					return nil
				}}, w.mutating)
			}
			p := pod("k", "v")
			w.create(p).expect(t, "")
			if p.Labels["l"] != tc.want {
				t.Errorf("got %q, want %q", p.Labels["l"], tc.want)
			}
		})
	}
}

// TestMutatedIsValidated checks that validating policies see what mutating ones have made.
func TestMutatedIsValidated(t *testing.T) {
	w := newWorld(t, mutatingOf("m", applying(`Object{metadata: Object.metadata{labels: {'a': 'x'}}}`), "")+
		policy(`validations: [{expression: "object.metadata.labels.a == 'y'", messageExpression: "'a is ' + string(object.metadata.labels.a)"}]`, ""))
	w.create(pod()).expect(t, denied("a is x"))
}

// definitions returns what the world's plugins apply to objects.
func (w *world) definitions() definitions { return definitions{Catalog: w.catalog} }
