package policies_test

import (
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

// TestParams checks which parameters a policy is evaluated with. The policy says which ones it got.
func TestParams(t *testing.T) {
	const reads = `validations: [{expression: "params == null", messageExpression: "params.kind + ' ' + params.apiVersion + ' ' + params.metadata.name"}]`
	const maps, namespaces = "paramKind: {apiVersion: v1, kind: ConfigMap}", "paramKind: {apiVersion: v1, kind: Namespace}"
	const none = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
	for name, tc := range map[string]struct {
		spec, ref string
		want      string
		warnings  int // Of a binding that warns: one for each parameter.
	}{
		"no kind":                      {ref: "{name: a, parameterNotFoundAction: Deny}", spec: `validations: [{expression: "false", message: m}]`, want: "m", warnings: 1},
		"no reference":                 {spec: maps + "\n" + reads},
		"by name":                      {spec: maps + "\n" + reads, ref: "{name: a, parameterNotFoundAction: Deny}", want: "ConfigMap v1 a", warnings: 1},
		"by name elsewhere":            {spec: maps + "\n" + reads, ref: "{name: c, namespace: other, parameterNotFoundAction: Deny}", want: "ConfigMap v1 c", warnings: 1},
		"missing":                      {spec: maps + "\n" + reads, ref: "{name: c, parameterNotFoundAction: Deny}", want: none},
		"missing, allowed":             {spec: maps + "\n" + reads, ref: "{name: c, parameterNotFoundAction: Allow}"},
		"missing, ignored":             {spec: "failurePolicy: Ignore\n" + maps + "\n" + reads, ref: "{name: c, parameterNotFoundAction: Deny}"},
		"by selector":                  {spec: maps + "\n" + reads, ref: "{selector: {matchLabels: {l: x}}, parameterNotFoundAction: Deny}", want: "ConfigMap v1 a", warnings: 2},
		"all":                          {spec: maps + "\n" + reads, ref: "{selector: {}, parameterNotFoundAction: Deny}", want: "ConfigMap v1 a", warnings: 3},
		"selector of nothing":          {spec: maps + "\n" + reads, ref: "{selector: {matchLabels: {l: z}}, parameterNotFoundAction: Deny}", want: none},
		"selector of nothing, allowed": {spec: maps + "\n" + reads, ref: "{selector: {matchLabels: {l: z}}, parameterNotFoundAction: Allow}"},
		"of the cluster":               {spec: namespaces + "\n" + reads, ref: "{name: ns, parameterNotFoundAction: Deny}", want: "Namespace v1 ns", warnings: 1},
		"of the cluster, in a namespace": {
			spec: namespaces + "\n" + reads, ref: "{name: ns, namespace: ns, parameterNotFoundAction: Deny}",
			want: "failed to configure binding: paramRef.namespace must not be provided for a cluster-scoped `paramKind`",
		},
		"of a custom kind":          {spec: "paramKind: {apiVersion: example.com/v1, kind: Rule}\n" + reads, ref: "{name: r, parameterNotFoundAction: Deny}", want: "Rule example.com/v1 r", warnings: 1},
		"of an equivalent kind":     {spec: "paramKind: {apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler}\n" + reads, ref: "{name: h, parameterNotFoundAction: Deny}", want: "HorizontalPodAutoscaler autoscaling/v1 h", warnings: 1},
		"content of a custom kind":  {spec: "paramKind: {apiVersion: example.com/v1, kind: Rule}\n" + `validations: [{expression: "params.spec.max > 3", messageExpression: "'max is ' + string(params.spec.max)"}]`, ref: "{name: r, parameterNotFoundAction: Deny}", want: "max is 3", warnings: 1},
		"an unknown kind, ignored":  {spec: "failurePolicy: Ignore\nparamKind: {apiVersion: example.com/v2, kind: Rule}\n" + reads, ref: "{name: r, parameterNotFoundAction: Deny}"},
		"match conditions see them": {spec: maps + "\n" + `matchConditions: [{name: a, expression: "params.metadata.name == 'b'"}]` + "\n" + `validations: [{expression: "false", messageExpression: "string(params.metadata.name)"}]`, ref: "{selector: {}, parameterNotFoundAction: Deny}", want: "b", warnings: 1},
	} {
		t.Run(name, func(t *testing.T) {
			bound := "validationActions: [Deny]"
			if tc.ref != "" {
				bound += "\nparamRef: " + tc.ref
			}
			w := paramsWorld(t, policy(tc.spec, bound))
			want := ""
			if tc.want != "" {
				want = denied(tc.want)
			}
			w.create(pod()).expect(t, want)
			if tc.warnings == 0 {
				return
			}
			w = paramsWorld(t, policy(tc.spec, "validationActions: [Warn]\n"+bound[len("validationActions: [Deny]"):]))
			if got := w.create(pod()); got.err != nil || len(got.warnings) != tc.warnings {
				t.Errorf("got %v, warnings %q, want %d", got.err, got.warnings, tc.warnings)
			}
		})
	}
}

func paramsWorld(t *testing.T, documents string) *world {
	t.Helper()
	w := newWorld(t, "")
	if err := w.Table.Install(&scheme.Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Rule"}, Resource: "rules", Singular: "rule",
		StoragePrefix: "example.com/rules", Custom: true,
	}); err != nil {
		t.Fatal(err)
	}
	w.apply(documents)
	rule := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Rule", "metadata": map[string]any{"name": "r"}, "spec": map[string]any{"max": int64(3)},
	}}
	w.put(rule)
	for _, c := range []struct{ namespace, name, label string }{{"ns", "a", "x"}, {"ns", "b", "x"}, {"ns", "d", "y"}, {"other", "c", "x"}} {
		obj := configMap(c.name)
		obj.Namespace, obj.Labels = c.namespace, map[string]string{"l": c.label}
		w.put(obj)
	}
	w.put(&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h"}})
	return w
}

// TestMisconfiguredParams checks what requests are told when the kind of parameters is not served, or
// namespaced parameters are to be found for an object that is in no namespace.
func TestMisconfiguredParams(t *testing.T) {
	const spec = `validations: [{expression: "true"}]`
	ref := "validationActions: [Deny]\nparamRef: {name: r, parameterNotFoundAction: Deny}"
	w := newWorld(t, policy("paramKind: {apiVersion: example.com/v2, kind: Rule}\n"+spec, ref))
	w.create(pod()).expect(t, `pods "p" is forbidden: ValidatingAdmissionPolicy 'p' denied request: `+
		"failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v2, Kind=Rule'")
	w.create(configMap("c")).expect(t, "")

	w = newWorld(t, validatingOf("p", `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [nodes]}]}`,
		"paramKind: {apiVersion: v1, kind: ConfigMap}", spec)+bindingOf("b", "p", ref))
	w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}).expect(t, `nodes "n" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: `+
		"failed to configure binding: cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
}

// TestParamsOfANamespace checks that a namespace's own name is where parameters are looked for.
func TestParamsOfANamespace(t *testing.T) {
	w := newWorld(t, validatingOf("p", `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [namespaces]}]}`,
		"paramKind: {apiVersion: v1, kind: ConfigMap}", `validations: [{expression: "false", messageExpression: "string(params.metadata.name)"}]`)+
		bindingOf("b", "p", "validationActions: [Deny]\nparamRef: {name: a, parameterNotFoundAction: Deny}"))
	w.put(configMap("a"))
	ns := admissiontest.Namespace("ns", corev1.NamespaceActive)
	w.admit(&admission.Request{Verb: admission.Update, Object: ns, Old: ns}).expect(t,
		`namespaces "ns" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: a`)
}
