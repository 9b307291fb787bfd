package admissionregistration

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

const (
	badSubdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	badVersion   = `a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`
	badValue     = `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`
	badName      = `name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`
)

type mutating = *admissionregistrationv1.MutatingWebhook

func newWebhooks(names ...string) *admissionregistrationv1.MutatingWebhookConfiguration {
	c := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta()}
	for _, name := range names {
		c.Webhooks = append(c.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name: name, ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://example.com/x")},
			SideEffects: new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionregistrationv1.RuleWithOperations{newRule()},
		})
	}
	defaultMutatingWebhooks(c)
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
			errortest.Exactly(t, newValidator().mutatingWebhooks(c), tc.want...)
			errortest.Exactly(t, newValidator().validatingWebhooks(asValidating(c)), tc.want...)
		})
	}
	errortest.Exactly(t, newValidator().mutatingWebhooks(newWebhooks("a.example.com", "a.example.com")), `webhooks[1].name: Duplicate value: "a.example.com"`)
	odd := newWebhooks("a.example.com")
	odd.Webhooks[0].ReinvocationPolicy = new(admissionregistrationv1.ReinvocationPolicyType("Odd"))
	odd.Webhooks[0].MatchConditions = make([]admissionregistrationv1.MatchCondition, 65)
	errortest.Contain(t, newValidator().mutatingWebhooks(odd),
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
	errortest.Exactly(t, newValidator().mutatingWebhooksUpdate(stored.DeepCopy(), stored))
	errortest.Exactly(t, newValidator().validatingWebhooksUpdate(asValidating(stored), asValidating(stored)))
	changed := stored.DeepCopy()
	changed.Webhooks[1].MatchConditions = []admissionregistrationv1.MatchCondition{{Expression: "true"}}
	errortest.Exactly(t, newValidator().mutatingWebhooksUpdate(changed, stored),
		"webhooks[0].matchConditions[0].expression: Required value", "webhooks[0].matchConditions[0].name: Required value", "webhooks[1].matchConditions[0].name: Required value")
	errortest.Exactly(t, newValidator().mutatingWebhooksUpdate(stored, newWebhooks("a.example.com")),
		`webhooks[0].sideEffects: Unsupported value: "Unknown": supported values: "None", "NoneOnDryRun"`,
		`webhooks[0].objectSelector.matchExpressions[0].values[0]: Invalid value: "_": `+badValue,
		"webhooks[0].matchConditions[0].expression: Required value", "webhooks[0].matchConditions[0].name: Required value",
		`webhooks[0].admissionReviewVersions: Invalid value: ["v0"]: must include at least one of v1, v1beta1`,
		`webhooks[1].name: Duplicate value: "a.example.com"`)
}
