package admissionregistration

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

// TestWebhooksAtTheirBounds checks values at the last valid place, which the table of errors passes.
func TestWebhooksAtTheirBounds(t *testing.T) {
	conditions := func(n int) []admissionregistrationv1.MatchCondition {
		var list []admissionregistrationv1.MatchCondition
		for i := range n {
			list = append(list, admissionregistrationv1.MatchCondition{Name: fmt.Sprintf("example.com/c%d", i), Expression: "true"})
		}
		return list
	}
	resources := func(list ...string) func(mutating) { return func(h mutating) { h.Rules[0].Resources = list } }
	url := func(text string) func(mutating) { return func(h mutating) { h.ClientConfig.URL = &text } }
	service := func(port int32, path string) func(mutating) {
		return func(h mutating) {
			h.ClientConfig = admissionregistrationv1.WebhookClientConfig{
				Service: &admissionregistrationv1.ServiceReference{Namespace: "a", Name: "b", Port: &port, Path: &path},
			}
		}
	}
	const path = "webhooks[0].clientConfig.service.path: Invalid value: "
	for name, tc := range map[string]struct {
		change func(mutating)
		want   []string
	}{
		"least time":               {change: func(h mutating) { h.TimeoutSeconds = new(int32(1)) }},
		"most time":                {change: func(h mutating) { h.TimeoutSeconds = new(int32(30)) }},
		"no time, failure, match":  {change: func(h mutating) { h.TimeoutSeconds, h.FailurePolicy, h.MatchPolicy = nil, nil, nil }},
		"no effect on dry runs":    {change: func(h mutating) { h.SideEffects = new(admissionregistrationv1.SideEffectClassNoneOnDryRun) }},
		"an older review, another": {change: func(h mutating) { h.AdmissionReviewVersions = []string{"v2", "v1beta1"} }},
		"64 conditions":            {change: func(h mutating) { h.MatchConditions = conditions(64) }},
		"65 conditions": {change: func(h mutating) { h.MatchConditions = conditions(65) }, want: []string{
			"webhooks[0].matchConditions: Too many: 65: must have at most 64 items",
		}},
		"both clients": {change: func(h mutating) { h.ClientConfig.Service = &admissionregistrationv1.ServiceReference{} }, want: []string{
			"webhooks[0].clientConfig: Required value: exactly one of url or service is required",
		}},
		"a URL with a port":     {change: url("https://[::1]:8443/a/../b")},
		"the greatest port":     {change: service(65535, "/")},
		"no path":               {change: service(1, "")},
		"a port too great":      {change: service(65536, "/a.b"), want: []string{"webhooks[0].clientConfig.service.port: Invalid value: 65536: port is not valid: must be between 1 and 65535, inclusive"}},
		"two slashes at an end": {change: service(1, "/a//"), want: []string{path + `"/a//": segment[1] may not be empty`}},
		"one subresource":       {change: resources("*/*")},
		// A subresource after the asterisk that covers it is refused, before it is not.
		"covered later": {change: resources("a/b", "a/*", "d/c", "*/c")},
		"twice": {change: resources("a/*", "a/*"), want: []string{
			`webhooks[0].rules[0].resources[1]: Invalid value: "a/*": if 'a/*' is present, must not specify a/*`,
		}},
		// Kubernetes looks only at the last resource without a slash.
		"all resources last":     {change: resources("a", "*")},
		"all resources first":    {change: resources("*", "b/c", "a", "d/e"), want: []string{`webhooks[0].rules[0].resources: Invalid value: ["*","b/c","a","d/e"]: if '*' is present, must not specify other resources without subresources`}},
		"one group, one version": {change: func(h mutating) { h.Rules[0].APIGroups, h.Rules[0].APIVersions = []string{"*"}, []string{"*"} }},
		"all operations":         {change: func(h mutating) { h.Rules[0].Operations = []admissionregistrationv1.OperationType{"*"} }},
		"every operation": {change: func(h mutating) {
			h.Rules[0].Operations = []admissionregistrationv1.OperationType{"CONNECT", "CREATE", "DELETE", "UPDATE"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newWebhooks("a.example.com")
			tc.change(&c.Webhooks[0])
			errortest.Exactly(t, newValidator().mutatingWebhooks(c), tc.want...)
			errortest.Exactly(t, newValidator().validatingWebhooks(asValidating(c)), tc.want...)
		})
	}
}

// TestPoliciesAtTheirBounds checks audit annotations, variables and messages.
func TestPoliciesAtTheirBounds(t *testing.T) {
	annotations := func(n int, expression string) []admissionregistrationv1.AuditAnnotation {
		var list []admissionregistrationv1.AuditAnnotation
		for i := range n {
			list = append(list, admissionregistrationv1.AuditAnnotation{Key: fmt.Sprintf("a%d", i), ValueExpression: expression})
		}
		return list
	}
	long := "'" + strings.Repeat("x", 5118) + "'"
	for name, tc := range map[string]struct {
		change func(*admissionregistrationv1.ValidatingAdmissionPolicy)
		want   []string
	}{
		"20 annotations": {change: func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
			p.Spec.Validations, p.Spec.AuditAnnotations = nil, annotations(20, "'x'")
		}},
		"the longest expression, with spaces": {change: func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
			p.Spec.AuditAnnotations = annotations(1, " "+long+" ")
		}},
		"a policy without a name": {change: func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
			p.Name, p.Spec.AuditAnnotations = "", annotations(1, "'x'")
		}, want: []string{
			"metadata.name: Required value: name or generateName is required",
			`spec.auditAnnotations[0].key: Invalid value: "a0": requires metadata.name be non-empty`,
		}},
		"a message with a line break at its end": {change: func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
			p.Spec.Validations[0].Message, p.Spec.Validations[0].MessageExpression = "a\n", "'b'"
		}},
		"a return in a message": {change: func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
			p.Spec.Validations[0].Message = "a\rb"
		}, want: []string{`spec.validations[0].message: Invalid value: "a\rb": must not contain line breaks`}},
		"variables with spaces": {change: func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
			p.Spec.Variables = []admissionregistrationv1.Variable{{Name: "While", Expression: "1"}, {Name: " ", Expression: " "}, {Name: "a ", Expression: "1"}}
		}, want: []string{
			"spec.variables[1].name: Required value: name is not specified",
			"spec.variables[1].expression: Required value: expression is not specified",
			`spec.variables[2].name: Invalid value: "a ": must be a valid CEL identifier`,
		}},
		"a parameter of nothing": {change: func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
			p.Spec.ParamKind = &admissionregistrationv1.ParamKind{APIVersion: "/", Kind: "ConfigMap"}
		}, want: []string{`spec.paramKind.apiVersion: Invalid value: "/": version must be specified`}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPolicy()
			tc.change(p)
			errortest.Exactly(t, newValidator().validatingPolicy(p), tc.want...)
		})
	}
	many := newPolicy()
	many.Spec.AuditAnnotations = annotations(21, "'x'")
	errortest.Contain(t, newValidator().validatingPolicy(many), "spec.auditAnnotations: Invalid value: ", ": must not have more than 20 auditAnnotations")
}
