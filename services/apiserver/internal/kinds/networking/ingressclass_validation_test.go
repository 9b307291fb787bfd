package networking

import (
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestIngressClass(t *testing.T) {
	type class = *networkingv1.IngressClass
	build := func(change func(class)) class {
		c := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "c", ResourceVersion: "1"}, Spec: networkingv1.IngressClassSpec{
			Controller: "example.com/c", Parameters: &networkingv1.IngressClassParametersReference{APIGroup: new("example.com"), Kind: "P", Name: "p"},
		}}
		change(c)
		defaultIngressClass(c)
		return c
	}
	scope := func(scope string, namespace *string) func(class) {
		return func(c class) { c.Spec.Parameters.Scope, c.Spec.Parameters.Namespace = &scope, namespace }
	}
	for _, tc := range []struct {
		name   string
		change func(class)
		want   []string
	}{
		{"whole", func(class) {}, nil},
		{"namespaced", scope("Namespace", new("ns")), nil},
		{"no controller", func(c class) { c.Spec.Controller = "" }, []string{"spec.controller: Required value"}},
		{"long controller", func(c class) { c.Spec.Controller = "example.com/" + strings.Repeat("a", 250) }, []string{"spec.controller: Too long: may not be more than 250 bytes"}},
		{"bad controller", func(c class) { c.Spec.Controller = "c" }, []string{`spec.controller: Invalid value: "c": must be a domain-prefixed path (such as "acme.io/foo")`}},
		{"bad parameters", func(c class) {
			c.Spec.Parameters = &networkingv1.IngressClassParametersReference{APIGroup: new("A"), Kind: "a%b"}
		}, []string{
			`spec.parameters.apiGroup: Invalid value: "A": ` + lower, `spec.parameters.kind: Invalid value: "a%b": may not contain '%'`, "spec.parameters.name: Required value",
		}},
		{"unknown scope", scope("Node", nil), []string{`spec.parameters.scope: Unsupported value: "Node": supported values: "Cluster", "Namespace"`}},
		{"no namespace", scope("Namespace", nil), []string{"spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"}},
		{"bad namespace", scope("Namespace", new("A")), []string{`spec.parameters.namespace: Invalid value: "A": ` + label}},
		{"needless namespace", scope("Cluster", new("ns")), []string{"spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"}},
	} {
		t.Run(tc.name, func(t *testing.T) { errortest.Exactly(t, validateIngressClass(build(tc.change)), tc.want...) })
	}
	bare := build(func(class) {})
	bare.Spec.Parameters.Scope = nil
	errortest.Exactly(t, validateIngressClass(bare), "spec.parameters.scope: Required value")
	errortest.Exactly(t, validateIngressClassUpdate(build(func(c class) { c.Spec.Controller = "example.com/d" }), build(func(class) {})), `spec.controller: Invalid value: "example.com/d": `+fixed)
	errortest.Exactly(t, validateIngressClassUpdate(build(func(c class) { c.Spec.Parameters = nil }), build(func(class) {})))
}
