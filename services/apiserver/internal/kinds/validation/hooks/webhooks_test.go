package hooks

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/defaults"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

const (
	badSubdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	badVersion   = `a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`
	badValue     = `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`
	badName      = `name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`
)

type mutating = *admissionregistrationv1.MutatingWebhook

func meta() metav1.ObjectMeta { return metav1.ObjectMeta{Name: "x", ResourceVersion: "1"} }

func newRule() admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{"CREATE"},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
	}
}

func newWebhooks(names ...string) *admissionregistrationv1.MutatingWebhookConfiguration {
	c := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta()}
	for _, name := range names {
		c.Webhooks = append(c.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name: name, ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://example.com/x")},
			SideEffects: new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionregistrationv1.RuleWithOperations{newRule()},
		})
	}
	defaults.MutatingWebhooks(c)
	return c
}

// asValidating returns the same configuration as the other kind.
func asValidating(c *admissionregistrationv1.MutatingWebhookConfiguration) *admissionregistrationv1.ValidatingWebhookConfiguration {
	list, _ := common(c.Webhooks)
	return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: c.ObjectMeta, Webhooks: list}
}

func TestWebhooks(t *testing.T) {
	url := func(text string) func(mutating) { return func(h mutating) { h.ClientConfig.URL = &text } }
	service := func(s admissionregistrationv1.ServiceReference) func(mutating) {
		return func(h mutating) { h.ClientConfig = admissionregistrationv1.WebhookClientConfig{Service: &s} }
	}
	path := func(text string) func(mutating) {
		return service(admissionregistrationv1.ServiceReference{Name: "s", Namespace: "ns", Path: &text, Port: new(int32(443))})
	}
	rule := func(change func(*admissionregistrationv1.RuleWithOperations)) func(mutating) {
		return func(h mutating) { change(&h.Rules[0]) }
	}
	resources := func(list ...string) func(mutating) {
		return rule(func(r *admissionregistrationv1.RuleWithOperations) { r.Resources = list })
	}
	const form = "; desired format: https://host[/path]"
	for name, tc := range map[string]struct {
		change func(mutating)
		want   []string
	}{
		"fine":               {change: func(mutating) {}},
		"no name":            {change: func(h mutating) { h.Name = "" }, want: []string{"webhooks[0].name: Required value"}},
		"a short name":       {change: func(h mutating) { h.Name = "a.b" }, want: []string{`webhooks[0].name: Invalid value: "a.b": should be a domain with at least three segments separated by dots`}},
		"a bad name":         {change: func(h mutating) { h.Name = "A.b.c" }, want: []string{`webhooks[0].name: Invalid value: "A.b.c": ` + badSubdomain}},
		"an unknown failure": {change: func(h mutating) { h.FailurePolicy = new(admissionregistrationv1.FailurePolicyType("Odd")) }, want: []string{`webhooks[0].failurePolicy: Unsupported value: "Odd": supported values: "Fail", "Ignore"`}},
		"an unknown match":   {change: func(h mutating) { h.MatchPolicy = new(admissionregistrationv1.MatchPolicyType("Odd")) }, want: []string{`webhooks[0].matchPolicy: Unsupported value: "Odd": supported values: "Equivalent", "Exact"`}},
		"no side effects":    {change: func(h mutating) { h.SideEffects = nil }, want: []string{"webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"}},
		"side effects":       {change: func(h mutating) { h.SideEffects = new(admissionregistrationv1.SideEffectClassSome) }, want: []string{`webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"`}},
		"no time":            {change: func(h mutating) { h.TimeoutSeconds = new(int32(0)) }, want: []string{"webhooks[0].timeoutSeconds: Invalid value: 0: the timeout value must be between 1 and 30 seconds"}},
		"much time":          {change: func(h mutating) { h.TimeoutSeconds = new(int32(31)) }, want: []string{"webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"}},
		"bad selectors": {
			change: func(h mutating) {
				h.NamespaceSelector.MatchLabels, h.ObjectSelector.MatchLabels = map[string]string{"a": "_"}, map[string]string{"a": "_"}
			},
			want: []string{`webhooks[0].namespaceSelector.matchLabels: Invalid value: "_": ` + badValue, `webhooks[0].objectSelector.matchLabels: Invalid value: "_": ` + badValue},
		},
		"no client":  {change: func(h mutating) { h.ClientConfig.URL = nil }, want: []string{"webhooks[0].clientConfig: Required value: exactly one of url or service is required"}},
		"plain text": {change: url("http://x"), want: []string{`webhooks[0].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme` + form}},
		"no host":    {change: url("https:///x"), want: []string{`webhooks[0].clientConfig.url: Invalid value: "": host must be specified` + form}},
		"too much of a URL": {change: url("https://u@x/?q#f"), want: []string{
			`webhooks[0].clientConfig.url: Invalid value: "u": user information is not permitted in the URL`, `webhooks[0].clientConfig.url: Invalid value: "f": fragments are not permitted in the URL`,
			`webhooks[0].clientConfig.url: Invalid value: "q": query parameters are not permitted in the URL`,
		}},
		"no URL":          {change: url("\x7f"), want: []string{`webhooks[0].clientConfig.url: Required value: url must be a valid URL: parse "\x7f": net/url: invalid control character in URL` + form}},
		"no service":      {change: service(admissionregistrationv1.ServiceReference{}), want: []string{"webhooks[0].clientConfig.service.name: Required value", "webhooks[0].clientConfig.service.namespace: Required value", "webhooks[0].clientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive"}},
		"a path":          {change: path("/a/b/")},
		"a relative path": {change: path("xa//B"), want: []string{`webhooks[0].clientConfig.service.path: Invalid value: "xa//B": must start with a '/'`, `webhooks[0].clientConfig.service.path: Invalid value: "xa//B": segment[1] may not be empty`, `webhooks[0].clientConfig.service.path: Invalid value: "xa//B": segment[2]: ` + badSubdomain}},
		"an empty path":   {change: path("//"), want: []string{`webhooks[0].clientConfig.service.path: Invalid value: "//": segment[0] may not be empty`}},
		"an empty rule":   {change: rule(func(r *admissionregistrationv1.RuleWithOperations) { *r = admissionregistrationv1.RuleWithOperations{} }), want: []string{"webhooks[0].rules[0].operations: Required value", "webhooks[0].rules[0].apiGroups: Required value", "webhooks[0].rules[0].apiVersions: Required value", "webhooks[0].rules[0].resources: Required value"}},
		"asterisks": {change: rule(func(r *admissionregistrationv1.RuleWithOperations) {
			r.Operations = append(r.Operations, "*", "Odd")
			r.APIGroups = []string{"*", "a"}
			r.APIVersions = []string{"*", ""}
			r.Scope = new(admissionregistrationv1.ScopeType("Odd"))
		}), want: []string{`webhooks[0].rules[0].operations: Invalid value: ["CREATE","*","Odd"]: if '*' is present, must not specify other operations`, `webhooks[0].rules[0].operations[2]: Unsupported value: "Odd": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"`, `webhooks[0].rules[0].apiGroups: Invalid value: ["*","a"]: if '*' is present, must not specify other API groups`, `webhooks[0].rules[0].apiVersions: Invalid value: ["*",""]: if '*' is present, must not specify other API versions`, "webhooks[0].rules[0].apiVersions[1]: Required value", `webhooks[0].rules[0].scope: Unsupported value: "Odd": supported values: "*", "Cluster", "Namespaced"`}},
		"resources":        {change: resources("*", "pods/status", "a/*", "*/scale")},
		"covered":          {change: resources("a/*", "a/b", "*/c", "d/c", ""), want: []string{`webhooks[0].rules[0].resources[1]: Invalid value: "a/b": if 'a/*' is present, must not specify a/b`, `webhooks[0].rules[0].resources[3]: Invalid value: "d/c": if '*/c' is present, must not specify d/c`, "webhooks[0].rules[0].resources[4]: Required value"}},
		"all of all":       {change: resources("*/*", "a"), want: []string{`webhooks[0].rules[0].resources: Invalid value: ["*/*","a"]: if '*/*' is present, must not specify other resources`}},
		"all and a":        {change: resources("*", "a"), want: []string{`webhooks[0].rules[0].resources: Invalid value: ["*","a"]: if '*' is present, must not specify other resources without subresources`}},
		"no versions":      {change: func(h mutating) { h.AdmissionReviewVersions = nil }, want: []string{"webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1"}},
		"unknown versions": {change: func(h mutating) { h.AdmissionReviewVersions = []string{"v2", "v2", "1"} }, want: []string{`webhooks[0].admissionReviewVersions[1]: Invalid value: "v2": duplicate version`, `webhooks[0].admissionReviewVersions[2]: Invalid value: "1": ` + badVersion, `webhooks[0].admissionReviewVersions: Invalid value: ["v2","v2","1"]: must include at least one of v1, v1beta1`}},
		"conditions": {change: func(h mutating) {
			h.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "a", Expression: "true"}, {Name: "a", Expression: " "}, {Expression: "true"}, {Name: "-", Expression: "true"}}
		}, want: []string{"webhooks[0].matchConditions[1].expression: Required value", `webhooks[0].matchConditions[1].name: Duplicate value: "a"`, "webhooks[0].matchConditions[2].name: Required value", `webhooks[0].matchConditions[3].name: Invalid value: "-": ` + badName}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newWebhooks("a.example.com")
			tc.change(&c.Webhooks[0])
			errortest.Exactly(t, MutatingWebhooks(c), tc.want...)
			errortest.Exactly(t, ValidatingWebhooks(asValidating(c)), tc.want...)
		})
	}
	errortest.Exactly(t, MutatingWebhooks(newWebhooks("a.example.com", "a.example.com")), `webhooks[1].name: Duplicate value: "a.example.com"`)
	odd := newWebhooks("a.example.com")
	odd.Webhooks[0].ReinvocationPolicy = new(admissionregistrationv1.ReinvocationPolicyType("Odd"))
	odd.Webhooks[0].MatchConditions = make([]admissionregistrationv1.MatchCondition, 65)
	errortest.Contain(t, MutatingWebhooks(odd),
		`webhooks[0].reinvocationPolicy: Unsupported value: "Odd": supported values: "IfNeeded", "Never"`, "webhooks[0].matchConditions: Too many: 65: must have at most 64 items")
}

// TestStoredWebhooksStay checks which invalid parts an update may keep because they are stored
// already.
func TestStoredWebhooksStay(t *testing.T) {
	stored := newWebhooks("a.example.com", "a.example.com")
	h := &stored.Webhooks[0]
	h.SideEffects, h.AdmissionReviewVersions = new(admissionregistrationv1.SideEffectClassUnknown), []string{"v0"}
	h.ObjectSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: []string{"_"}}}
	h.MatchConditions = []admissionregistrationv1.MatchCondition{{}}
	errortest.Exactly(t, MutatingWebhooksUpdate(stored.DeepCopy(), stored))
	errortest.Exactly(t, ValidatingWebhooksUpdate(asValidating(stored), asValidating(stored)))
	changed := stored.DeepCopy()
	changed.Webhooks[1].MatchConditions = []admissionregistrationv1.MatchCondition{{Expression: "true"}}
	errortest.Exactly(t, MutatingWebhooksUpdate(changed, stored),
		"webhooks[0].matchConditions[0].expression: Required value", "webhooks[0].matchConditions[0].name: Required value", "webhooks[1].matchConditions[0].name: Required value")
	errortest.Exactly(t, MutatingWebhooksUpdate(stored, newWebhooks("a.example.com")),
		`webhooks[0].sideEffects: Unsupported value: "Unknown": supported values: "None", "NoneOnDryRun"`,
		`webhooks[0].objectSelector.matchExpressions[0].values[0]: Invalid value: "_": `+badValue,
		"webhooks[0].matchConditions[0].expression: Required value", "webhooks[0].matchConditions[0].name: Required value",
		`webhooks[0].admissionReviewVersions: Invalid value: ["v0"]: must include at least one of v1, v1beta1`,
		`webhooks[1].name: Duplicate value: "a.example.com"`)
}

func TestPolicies(t *testing.T) {
	type validating = *admissionregistrationv1.ValidatingAdmissionPolicy
	match := &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: newRule()}}}
	newPolicy := func() validating {
		p := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta(), Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: match.DeepCopy(), Validations: []admissionregistrationv1.Validation{{Expression: "true"}},
		}}
		defaults.ValidatingPolicy(p)
		return p
	}
	kind := func(apiVersion, kind string) func(validating) {
		return func(p validating) {
			p.Spec.ParamKind = &admissionregistrationv1.ParamKind{APIVersion: apiVersion, Kind: kind}
		}
	}
	long := strings.Repeat("x", 5<<10+1)
	for name, tc := range map[string]struct {
		change func(validating)
		want   []string
	}{
		"fine":              {change: func(validating) {}},
		"no failure policy": {change: func(p validating) { p.Spec.FailurePolicy = nil }, want: []string{"spec.failurePolicy: Required value"}},
		"a failure policy":  {change: func(p validating) { p.Spec.FailurePolicy = new(admissionregistrationv1.FailurePolicyType("Odd")) }, want: []string{`spec.failurePolicy: Unsupported value: "Odd": supported values: "Fail", "Ignore"`}},
		"a kind":            {change: kind("example.com/v1", "Thing")},
		"a core kind":       {change: kind("v1", "ConfigMap")},
		"no kind":           {change: kind("", ""), want: []string{"spec.paramKind.apiVersion: Required value", "spec.paramKind.kind: Required value"}},
		"a bad kind":        {change: kind("A/1", "1"), want: []string{`spec.paramKind.apiVersion: Invalid value: "A": ` + badSubdomain, `spec.paramKind.apiVersion: Invalid value: "1": ` + badVersion, `spec.paramKind.kind: Invalid value: "1": may have mixed case, but should otherwise match: ` + badVersion}},
		"a long version":    {change: kind("a/b/c", "T"), want: []string{`spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`}},
		"no version":        {change: kind("a/", "T"), want: []string{`spec.paramKind.apiVersion: Invalid value: "a/": version must be specified`}},
		"no constraints":    {change: func(p validating) { p.Spec.MatchConstraints = nil }, want: []string{"spec.matchConstraints: Required value"}},
		"empty constraints": {change: func(p validating) { p.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{} }, want: []string{"spec.matchConstraints.matchPolicy: Required value", "spec.matchConstraints.namespaceSelector: Required value", "spec.matchConstraints.objectSelector: Required value", "spec.matchConstraints.resourceRules: Required value"}},
		"names":             {change: func(p validating) { p.Spec.MatchConstraints.ResourceRules[0].ResourceNames = []string{"a", "a", "b/c"} }, want: []string{`spec.matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: "a"`, `spec.matchConstraints.resourceRules[0].resourceNames[2]: Invalid value: "b/c": may not contain '/'`}},
		"exclusions": {change: func(p validating) {
			p.Spec.MatchConstraints.ExcludeResourceRules = []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: newRule()}}
			p.Spec.MatchConstraints.ExcludeResourceRules[0].Resources = nil
			p.Spec.MatchConstraints.MatchPolicy = new(admissionregistrationv1.MatchPolicyType("Odd"))
		}, want: []string{`spec.matchConstraints.matchPolicy: Unsupported value: "Odd": supported values: "Equivalent", "Exact"`, "spec.matchConstraints.excludeResourceRules[0].resources: Required value"}},
		"conditions": {change: func(p validating) { p.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{}} }, want: []string{"spec.matchConditions[0].expression: Required value", "spec.matchConditions[0].name: Required value"}},
		"variables": {change: func(p validating) {
			p.Spec.Variables = []admissionregistrationv1.Variable{{Name: "_a1", Expression: "1"}, {}, {Name: "in", Expression: "1"}, {Name: "1", Expression: "1"}}
		}, want: []string{"spec.variables[1].name: Required value: name is not specified", "spec.variables[1].expression: Required value: expression is not specified", `spec.variables[2].name: Invalid value: "in": must be a valid CEL identifier`, `spec.variables[3].name: Invalid value: "1": must be a valid CEL identifier`}},
		"nothing to validate": {change: func(p validating) { p.Spec.Validations = nil }, want: []string{"spec.validations: Required value: validations or auditAnnotations must contain at least one item", "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item"}},
		"validations": {change: func(p validating) {
			p.Spec.Validations[0] = admissionregistrationv1.Validation{Message: " ", MessageExpression: " ", Reason: new(metav1.StatusReason("Odd"))}
		}, want: []string{"spec.validations[0].expression: Required value: expression is not specified", `spec.validations[0].messageExpression: Invalid value: " ": must be non-empty if specified`, `spec.validations[0].message: Invalid value: " ": must be non-empty if specified`, `spec.validations[0].reason: Unsupported value: "Odd": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"`}},
		"two lines": {change: func(p validating) { p.Spec.Validations[0].Message = "a\nb" }, want: []string{`spec.validations[0].message: Invalid value: "a\nb": must not contain line breaks`}},
		"annotations": {change: func(p validating) {
			p.Spec.AuditAnnotations = []admissionregistrationv1.AuditAnnotation{{Key: "a", ValueExpression: "'x'"}, {Key: "a"}, {Key: "-", ValueExpression: long}}
		}, want: []string{"spec.auditAnnotations[1].valueExpression: Required value: valueExpression is not specified", `spec.auditAnnotations[1].key: Duplicate value: "a"`, `spec.auditAnnotations[2].key: Invalid value: "x/-": ` + badName, "spec.auditAnnotations[2].valueExpression: Required value: must not exceed 5120 bytes in length"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPolicy()
			tc.change(p)
			errortest.Exactly(t, ValidatingPolicy(p), tc.want...)
			errortest.Exactly(t, ValidatingPolicyUpdate(p, newPolicy()), tc.want...)
		})
	}
	stored := newPolicy()
	stored.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{}}
	errortest.Exactly(t, ValidatingPolicyUpdate(stored.DeepCopy(), stored))
	checked := newPolicy()
	checked.Status.TypeChecking = &admissionregistrationv1.TypeChecking{ExpressionWarnings: []admissionregistrationv1.ExpressionWarning{{}}}
	errortest.Exactly(t, ValidatingPolicyStatus(checked, checked),
		"status.typeChecking.expressionWarnings[0].warning: Required value", "status.typeChecking.expressionWarnings[0].fieldRef: Required value")
}

func TestMutatingPolicies(t *testing.T) {
	type policy = *admissionregistrationv1.MutatingAdmissionPolicy
	newPolicy := func() policy {
		p := &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: meta(), Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			MatchConstraints:   &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: newRule()}}},
			Mutations:          []admissionregistrationv1.Mutation{{PatchType: "JSONPatch", JSONPatch: &admissionregistrationv1.JSONPatch{Expression: "[]"}}},
			ReinvocationPolicy: "Never",
		}}
		defaults.MutatingPolicy(p)
		return p
	}
	for name, tc := range map[string]struct {
		change func(policy)
		want   []string
	}{
		"fine": {change: func(policy) {}},
		"deletion": {change: func(p policy) {
			p.Spec.MatchConstraints.ResourceRules[0].Operations = []admissionregistrationv1.OperationType{"DELETE"}
		}, want: []string{`spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"`}},
		"no mutations":    {change: func(p policy) { p.Spec.Mutations = nil }, want: []string{"spec.mutations: Required value: mutations must contain at least one item"}},
		"no reinvocation": {change: func(p policy) { p.Spec.ReinvocationPolicy = "" }, want: []string{"spec.reinvocationPolicy: Required value"}},
		"an unknown one":  {change: func(p policy) { p.Spec.ReinvocationPolicy = "Odd" }, want: []string{`spec.reinvocationPolicy: Unsupported value: "Odd": supported values: "IfNeeded", "Never"`}},
		"no type":         {change: func(p policy) { p.Spec.Mutations[0].PatchType = "" }, want: []string{"spec.mutations[0].patchType: Required value"}},
		"an unknown type": {change: func(p policy) { p.Spec.Mutations[0].PatchType = "Odd" }, want: []string{`spec.mutations[0].patchType: Unsupported value: "Odd": supported values: "ApplyConfiguration", "JSONPatch"`}},
		"another type":    {change: func(p policy) { p.Spec.Mutations[0].PatchType = "ApplyConfiguration" }, want: []string{"spec.mutations[0].applyConfiguration: Required value: must be specified when patchType is ApplyConfiguration", `spec.mutations[0].jsonPatch: Invalid value: "{jsonPatch}": must not be specified when patchType is ApplyConfiguration`}},
		"the other": {change: func(p policy) {
			p.Spec.Mutations[0] = admissionregistrationv1.Mutation{PatchType: "JSONPatch", ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{}}
		}, want: []string{"spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch", `spec.mutations[0].applyConfiguration: Invalid value: "{applyConfiguration}": must not be specified when patchType is JSONPatch`}},
		"no expression": {change: func(p policy) { p.Spec.Mutations[0].JSONPatch.Expression = " " }, want: []string{"spec.mutations[0].jsonPatch.expression: Required value"}},
		"no configuration": {change: func(p policy) {
			p.Spec.Mutations[0] = admissionregistrationv1.Mutation{PatchType: "ApplyConfiguration", ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{}}
		}, want: []string{"spec.mutations[0].applyConfiguration.expression: Required value"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPolicy()
			tc.change(p)
			errortest.Exactly(t, MutatingPolicy(p), tc.want...)
			errortest.Exactly(t, MutatingPolicyUpdate(p, newPolicy()), tc.want...)
		})
	}
}

func TestBindings(t *testing.T) {
	ref := func(ref admissionregistrationv1.ParamRef) *admissionregistrationv1.ParamRef { return &ref }
	deny, odd := admissionregistrationv1.DenyAction, admissionregistrationv1.ParameterNotFoundActionType("Odd")
	selector := &metav1.LabelSelector{}
	for name, tc := range map[string]struct {
		spec admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec
		want []string
	}{
		"fine":         {admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p", ParamRef: ref(admissionregistrationv1.ParamRef{Name: "x", ParameterNotFoundAction: &deny})}, nil},
		"nothing":      {admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{}, []string{"spec.policyName: Required value"}},
		"a bad policy": {admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "A"}, []string{`spec.policyName: Invalid value: "A": ` + badSubdomain}},
		"no parameter": {admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p", ParamRef: ref(admissionregistrationv1.ParamRef{})}, []string{"spec.paramRef: Required value: one of name or selector must be specified", "spec.paramRef.parameterNotFoundAction: Required value"}},
		"both":         {admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p", ParamRef: ref(admissionregistrationv1.ParamRef{Name: "a/b", Selector: selector, ParameterNotFoundAction: &odd})}, []string{`spec.paramRef.name: Invalid value: "a/b": may not contain '/'`, "spec.paramRef.name: Forbidden: name and selector are mutually exclusive", "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive", `spec.paramRef.parameterNotFoundAction: Unsupported value: "Odd": supported values: "Deny", "Allow"`}},
		"resources":    {admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p", MatchResources: &admissionregistrationv1.MatchResources{}}, []string{"spec.matchResources.matchPolicy: Required value", "spec.matchResources.namespaceSelector: Required value", "spec.matchResources.objectSelector: Required value"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta(), Spec: tc.spec}
			b.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{"Deny", "Audit"}
			errortest.Exactly(t, ValidatingPolicyBinding(b), tc.want...)
			errortest.Exactly(t, ValidatingPolicyBindingUpdate(b, b), tc.want...)
			m := &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: meta(), Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{
				PolicyName: tc.spec.PolicyName, ParamRef: tc.spec.ParamRef, MatchResources: tc.spec.MatchResources,
			}}
			errortest.Exactly(t, MutatingPolicyBinding(m), tc.want...)
			errortest.Exactly(t, MutatingPolicyBindingUpdate(m, m), tc.want...)
		})
	}
	b := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta(), Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p"}}
	errortest.Exactly(t, ValidatingPolicyBinding(b), "spec.validationActions: Required value: at least one validation action is required")
	b.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{"Deny", "Odd", "Deny", "Warn"}
	errortest.Exactly(t, ValidatingPolicyBinding(b),
		`spec.validationActions[1]: Unsupported value: "Odd": supported values: "Audit", "Deny", "Warn"`, `spec.validationActions[2]: Duplicate value: "Deny"`,
		`spec.validationActions: Invalid value: ["Deny","Odd","Deny","Warn"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)`)
	m := &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: meta(), Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{
		PolicyName: "p", MatchResources: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: newRule()}}},
	}}
	m.Spec.MatchResources.ResourceRules[0].Operations[0] = "DELETE"
	defaults.MutatingPolicyBinding(m)
	errortest.Exactly(t, MutatingPolicyBinding(m), `spec.matchResources.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"`)
}
