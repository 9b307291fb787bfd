package policies_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// TestExpressions checks what expressions can read, and what a client is told when they do not hold.
func TestExpressions(t *testing.T) {
	old := func(req *admission.Request) {
		req.Verb, req.Old = admission.Update, pod("a", "old")
	}
	for name, tc := range map[string]struct {
		spec, bound string
		labels      []string
		change      func(*admission.Request)
		want        string // after "denied request: "; empty if admitted
	}{
		"holds":                {spec: `validations: [{expression: "true"}]`},
		"does not hold":        {spec: `validations: [{expression: "1 == 2 "}]`, want: "failed expression: 1 == 2"},
		"message":              {spec: `validations: [{expression: "false", message: " no "}]`, want: "no"},
		"first that fails":     {spec: `validations: [{expression: "true", message: a}, {expression: "false", message: b}, {expression: "false", message: c}]`, want: "b"},
		"object":               {spec: `validations: [{expression: "object.metadata.labels.a == 'x'", message: m}]`, labels: []string{"a", "y"}, want: "m"},
		"object that fits":     {spec: `validations: [{expression: "object.metadata.labels.a == 'x' && object.kind == 'Pod' && object.apiVersion == 'v1'"}]`, labels: []string{"a", "x"}},
		"oldObject of a new":   {spec: `validations: [{expression: "oldObject == null"}]`},
		"oldObject":            {spec: `validations: [{expression: "oldObject.metadata.labels.a == 'old' && object.metadata.labels.a == 'x'"}]`, labels: []string{"a", "x"}, change: old},
		"object of a deletion": {spec: `validations: [{expression: "object == null && oldObject.kind == 'Pod'"}]`, change: func(req *admission.Request) { req.Verb, req.Old, req.Object = admission.Delete, req.Object, nil }},
		"request": {spec: `validations: [{expression: "request.operation == 'CREATE' && request.name == 'p' && request.namespace == 'ns' && ` +
			`request.kind.kind == 'Pod' && request.resource.resource == 'pods' && request.requestResource.version == 'v1' && ` +
			`request.requestKind.group == '' && !has(request.subResource) && !request.dryRun"}]`},
		"user":            {spec: `validations: [{expression: "request.userInfo.username == 'alice' && 'devs' in request.userInfo.groups && request.userInfo.extra.team == ['a']"}]`},
		"dry run":         {spec: `validations: [{expression: "request.dryRun"}]`, change: func(req *admission.Request) { req.DryRun = true }},
		"options":         {spec: `validations: [{expression: "request.options.fieldManager == 'm' && request.options.kind == 'CreateOptions'"}]`, change: func(req *admission.Request) { req.Options = options("m") }},
		"namespaceObject": {spec: `validations: [{expression: "namespaceObject.metadata.name == 'ns' && namespaceObject.status.phase == 'Active'"}]`},
		"authorizer":      {spec: `validations: [{expression: "authorizer.group('apps').resource('deployments').namespace('ns').check('get').allowed()", message: m}]`},
		"authorizer that refuses": {
			spec: `validations: [{expression: "authorizer.group('apps').resource('deployments').namespace('ns').check('delete').allowed()", message: m}]`, want: "m",
		},
		"authorizer of another": {
			spec: `validations: [{expression: "authorizer.serviceAccount('ns', 'robot').path('/metrics').check('get').allowed()", message: m}]`, want: "m",
		},
		"authorizer.requestResource": {spec: `validations: [{expression: "authorizer.requestResource.check('get').reason() == 'no RBAC policy matched'"}]`},
		"variables": {spec: `
variables: [{name: a, expression: "object.metadata.labels.a"}, {name: b, expression: "variables.a + '!'"}]
validations: [{expression: "variables.b == 'x!'", messageExpression: "'b is ' + variables.b"}]`, labels: []string{"a", "y"}, want: "b is y!"},
		"a variable that is not read": {spec: `
variables: [{name: wrong, expression: "object.no.such.field"}]
validations: [{expression: "true || variables.wrong"}]`},
		"a variable that fails": {spec: `
variables: [{name: wrong, expression: "object.no"}]
validations: [{expression: "variables.wrong == 1"}]`, want: `expression 'variables.wrong == 1' resulted in error: composited variable "wrong" fails to evaluate: no such key: no`},
		"match condition that holds":             {spec: `{matchConditions: [{name: a, expression: "has(object.metadata.labels.a)"}], validations: [{expression: "false"}]}`, labels: []string{"a", ""}, want: "failed expression: false"},
		"match condition that does not":          {spec: `{matchConditions: [{name: a, expression: "true"}, {name: b, expression: "false"}], validations: [{expression: "false"}]}`},
		"match condition that fails":             {spec: `{matchConditions: [{name: a, expression: "object.no"}], validations: [{expression: "true"}]}`, want: "compilation"},
		"match condition's variable":             {spec: `{variables: [{name: v, expression: "false"}], matchConditions: [{name: a, expression: "variables.v"}], validations: [{expression: "false"}]}`},
		"match condition failing, another false": {spec: `{matchConditions: [{name: a, expression: "object.no == 1"}, {name: b, expression: "false"}], validations: [{expression: "false"}]}`},
		"messageExpression":                      {spec: `validations: [{expression: "false", message: m, messageExpression: "'is ' + object.metadata.name"}]`, want: "is p"},
		"messageExpression that fails":           {spec: `validations: [{expression: "false", message: m, messageExpression: "string(object.no)"}]`, want: "m"},
		"messageExpression of lines":             {spec: `validations: [{expression: "false", message: m, messageExpression: "'a\\nb'"}]`, want: "m"},
		"messageExpression that is blank":        {spec: `validations: [{expression: "false", messageExpression: "' '"}]`, want: "failed expression: false"},
		"messageExpression of an authorizer":     {spec: `validations: [{expression: "false", message: m, messageExpression: "string(authorizer.path('/x').check('get').allowed())"}]`, want: "m"},
		"an error":                               {spec: `validations: [{expression: "object.no == 1"}]`, want: "expression 'object.no == 1' resulted in error: no such key: no"},
		"an error, ignored":                      {spec: `{failurePolicy: Ignore, validations: [{expression: "object.no == 1"}]}`},
		"a denial, failures ignored":             {spec: `{failurePolicy: Ignore, validations: [{expression: "false"}]}`, want: "failed expression: false"},
		"no expression":                          {spec: `validations: [{expression: "1 +"}]`, want: "compilation"},
		"of another type":                        {spec: `validations: [{expression: "1"}]`, want: "compilation error: must evaluate to bool but got int"},
		"no expression, ignored":                 {spec: `{failurePolicy: Ignore, validations: [{expression: "1 +"}]}`},
		"library functions":                      {spec: `validations: [{expression: "quantity('1Gi').isGreaterThan(quantity('1M')) && ip('10.0.0.1').family() == 4 && 'abc'.find('b') == 'b'"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, policy(tc.spec, tc.bound))
			w.authorizer.Allow = func(a authz.Attributes) bool { return a.Group == "apps" && a.Verb == "get" }
			req := &admission.Request{Verb: admission.Create, Object: pod(tc.labels...)}
			if tc.change != nil {
				tc.change(req)
			}
			got := w.admit(req)
			switch tc.want {
			case "compilation":
				if got.err == nil || !strings.HasPrefix(got.err.Error(), denied("compilation error: ")) {
					t.Errorf("got %v", got.err)
				}
			case "":
				got.expect(t, "")
			default:
				got.expect(t, denied(tc.want))
			}
		})
	}
}

func options(manager string) *metav1.CreateOptions {
	return &metav1.CreateOptions{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "CreateOptions"}, FieldManager: manager}
}

// TestWhoIsAsked checks whose rights an authorizer in an expression is asked about, and that it is asked
// once.
func TestWhoIsAsked(t *testing.T) {
	w := newWorld(t, policy(`validations: [{expression: "!authorizer.serviceAccount('ns', 'robot').path('/x').check('get').allowed()"},
 {expression: "!authorizer.serviceAccount('ns', 'robot').path('/x').check('get').allowed()"},
 {expression: "!authorizer.requestResource.check('create').allowed()"}]`, ""))
	w.create(pod()).expect(t, "")
	if diff := cmp.Diff([]string{"system:serviceaccount:ns:robot", "alice"}, w.authorizer.By); diff != "" {
		t.Errorf("the users (-want +got):\n%s", diff)
	}
	want := []authz.Attributes{
		{Verb: "get", Path: "/x", NonResource: true},
		{Verb: "create", Version: "*", Resource: "pods", Namespace: "ns", Name: "p"},
	}
	if diff := cmp.Diff(want, w.authorizer.About); diff != "" {
		t.Errorf("the questions (-want +got):\n%s", diff)
	}
}

// TestReasons checks the status of a refusal.
func TestReasons(t *testing.T) {
	for reason, code := range map[string]int32{"": 422, "Invalid": 422, "Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413} {
		validation := `validations: [{expression: "false", message: m}]`
		if reason != "" {
			validation = fmt.Sprintf(`validations: [{expression: "false", message: m, reason: %s}]`, reason)
		} else {
			reason = "Invalid"
		}
		status := statusOf(t, newWorld(t, policy(validation, "")).create(pod()).err)
		text := "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: m"
		want := metav1.Status{
			Status: metav1.StatusFailure, Code: code, Reason: metav1.StatusReason(reason), Message: denied("m"),
			Details: &metav1.StatusDetails{Name: "p", Kind: "pods", Causes: []metav1.StatusCause{{Message: text}}},
		}
		if diff := cmp.Diff(want, status); diff != "" {
			t.Errorf("%s: the status (-want +got):\n%s", reason, diff)
		}
	}
}

// TestActions checks what bindings have done about failures.
func TestActions(t *testing.T) {
	const spec = `validations: [{expression: "true"}, {expression: "object.metadata.name == 'x'", message: m}]`
	const failure = `[{"message":"m","policy":"p","binding":"b","expressionIndex":1,"validationActions":%s}]`
	for name, tc := range map[string]struct {
		actions, err, failure string
		warned                bool
	}{
		"deny":           {actions: "[Deny]", err: denied("m")},
		"warn":           {actions: "[Warn]", warned: true},
		"audit":          {actions: "[Audit]", failure: `["Audit"]`},
		"warn and audit": {actions: "[Warn, Audit]", failure: `["Warn","Audit"]`, warned: true},
		"deny and audit": {actions: "[Deny, Audit]", failure: `["Deny","Audit"]`, err: denied("m")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, policy(spec, "validationActions: "+tc.actions))
			got := w.create(pod())
			got.expect(t, tc.err)
			var warnings []string
			if tc.warned {
				warnings = []string{"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': m"}
			}
			if !slices.Equal(got.warnings, warnings) {
				t.Errorf("got the warnings %q, want %q", got.warnings, warnings)
			}
			want := ""
			if tc.failure != "" {
				want = fmt.Sprintf(failure, tc.failure)
			}
			if recorded := got.annotations["validation.policy.admission.k8s.io/validation_failure"]; recorded != want {
				t.Errorf("got  %s\nwant %s", recorded, want)
			}
			w.create(admissiontest.Pod(func(p *corev1.Pod) { p.Name = "x" })).expect(t, "")
		})
	}
}

// TestAuditAnnotations checks what policies record of requests.
func TestAuditAnnotations(t *testing.T) {
	const params = `paramKind: {apiVersion: v1, kind: ConfigMap}`
	for name, tc := range map[string]struct {
		spec, bound, want, err string
	}{
		"a value":          {spec: `auditAnnotations: [{key: k, valueExpression: "' is ' + object.metadata.name + ' '"}]`, want: "is p"},
		"null":             {spec: `auditAnnotations: [{key: k, valueExpression: "null"}]`},
		"blank":            {spec: `auditAnnotations: [{key: k, valueExpression: "' '"}]`},
		"with a denial":    {spec: `{auditAnnotations: [{key: k, valueExpression: "'v'"}], validations: [{expression: "false", message: m}]}`, want: "v", err: denied("m")},
		"too long":         {spec: `auditAnnotations: [{key: k, valueExpression: "[0,1,2,3,4,5,6,7,8,9,10,11].map(i, '` + strings.Repeat("x", 1000) + `').join('')"}]`, want: strings.Repeat("x", 10<<10)},
		"an error":         {spec: `auditAnnotations: [{key: k, valueExpression: "object.no"}]`, err: "compilation"},
		"an error at work": {spec: `auditAnnotations: [{key: k, valueExpression: "string(object.no)"}]`, err: denied("expression 'string(object.no)' resulted in error: no such key: no")},
		"ignored":          {spec: `{failurePolicy: Ignore, auditAnnotations: [{key: k, valueExpression: "string(object.no)"}]}`},
		"of several parameters": {
			spec: params + "\n" + `auditAnnotations: [{key: k, valueExpression: "string(params.data.v)"}]`, bound: `paramRef: {selector: {}, parameterNotFoundAction: Deny}`, want: "one, two",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, policy(tc.spec, tc.bound))
			w.put(configMap("a", "v", "one"))
			w.put(configMap("b", "v", "two"))
			w.put(configMap("c", "v", "one"))
			got := w.create(pod())
			if tc.err == "compilation" {
				if got.err == nil || !strings.HasPrefix(got.err.Error(), denied("compilation error: ")) {
					t.Errorf("got %v", got.err)
				}
			} else {
				got.expect(t, tc.err)
			}
			if got.annotations["p/k"] != tc.want {
				t.Errorf("got the annotation %q, want %q", got.annotations["p/k"], tc.want)
			}
		})
	}
}

// TestManyFailures checks that an audit event lists 50 failures at most.
func TestManyFailures(t *testing.T) {
	w := newWorld(t, policy("validations: ["+strings.Repeat(`{expression: "false"}, `, 60)+"]", "validationActions: [Audit]"))
	got := w.create(pod())
	got.expect(t, "")
	if n := strings.Count(got.annotations["validation.policy.admission.k8s.io/validation_failure"], `"expressionIndex"`); n != 50 {
		t.Errorf("%d failures are recorded, want 50", n)
	}
}

// TestLives checks that policies are in force as long as they and a binding exist, in their latest form.
func TestLives(t *testing.T) {
	w := newWorld(t, "")
	w.create(pod()).expect(t, "")
	w.apply(policy(`validations: [{expression: "false", message: one}]`, ""))
	w.create(pod()).expect(t, denied("one"))
	w.apply(validatingOf("p", `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}`,
		`validations: [{expression: "false", message: two}]`))
	w.create(pod()).expect(t, denied("two"))
	w.apply(bindingOf("a", "p", "validationActions: [Deny]"))
	w.create(pod()).expect(t, strings.ReplaceAll(denied("two"), "'b'", "'a'"))
	w.apply(bindingOf("a", "another", "validationActions: [Deny]"))
	w.create(pod()).expect(t, denied("two"))
	w.Remove(&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
	w.create(pod()).expect(t, "")
	w.apply(bindingOf("b", "p", "validationActions: [Deny]"))
	w.create(pod()).expect(t, denied("two"))
	w.Remove(&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
	w.create(pod()).expect(t, "")
}

// TestExempt checks that no policy applies to policies, bindings, and reviews.
func TestExempt(t *testing.T) {
	w := newWorld(t, validatingOf("p", `matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"]}]}`,
		`validations: [{expression: "false", message: m}]`)+bindingOf("b", "p", "validationActions: [Deny]")+
		document("MutatingAdmissionPolicy", "p", `matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"]}]}`,
			`mutations: [{patchType: JSONPatch, jsonPatch: {expression: "object.no"}}]`)+
		document("MutatingAdmissionPolicyBinding", "b", "policyName: p"))
	exempt := map[string]bool{}
	for _, kind := range w.Table.Kinds() {
		obj := kind.New()
		obj.SetName("p")
		if kind.Namespaced {
			obj.SetNamespace("ns")
		}
		if w.admit(&admission.Request{Verb: admission.Create, Kind: kind, Namespace: obj.GetNamespace(), Name: "p", Object: obj}).err == nil {
			exempt[kind.GroupResource().String()] = true
		}
	}
	want := map[string]bool{}
	for _, name := range []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"} {
		want[name+".admissionregistration.k8s.io"] = true
	}
	for _, name := range []string{"selfsubjectreviews", "tokenreviews"} {
		want[name+".authentication.k8s.io"] = true
	}
	for _, name := range []string{"localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews"} {
		want[name+".authorization.k8s.io"] = true
	}
	if diff := cmp.Diff(want, exempt); diff != "" {
		t.Errorf("exempt (-want +got):\n%s", diff)
	}
}
