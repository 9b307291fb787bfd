package customresources

import (
	"testing"
	"time"

	"go.uber.org/goleak"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/libs/scheme"
)

// TestMain tolerates Kubernetes' logger, which flushes for as long as the process runs.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

func at(second int64) time.Time { return time.Unix(second, 0) }

func objects(all ...*crd) []scheme.Object {
	var found []scheme.Object
	for _, one := range all {
		found = append(found, one)
	}
	return found
}

// TestStructure checks the condition NonStructuralSchema, also as the schema changes.
func TestStructure(t *testing.T) {
	const of = "NonStructuralSchema=True Violations: "
	c := named("example.org", "rods rod Rod RodList", "")
	for _, step := range []struct {
		name, spec, want string
		changed          bool
	}{
		{"no schema", "versions: [{name: v1}]", "", false},
		{"a structural one", "versions: [{name: v1, schema: {openAPIV3Schema: {type: object}}}]", "", false},
		{"one without types", "versions: [{name: v1}, {name: v2, schema: {openAPIV3Schema: {properties: {a: {}}}}}]",
			of + "[spec.versions[1].schema.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields, " +
				"spec.versions[1].schema.openAPIV3Schema.type: Required value: must not be empty at the root]", true},
		{"the same", "versions: [{name: v1}, {name: v2, schema: {openAPIV3Schema: {properties: {a: {}}}}}]",
			of + "[spec.versions[1].schema.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields, " +
				"spec.versions[1].schema.openAPIV3Schema.type: Required value: must not be empty at the root]", false},
		{"unknown fields are kept", "preserveUnknownFields: true\nversions: [{name: v1}]",
			of + "spec.preserveUnknownFields: Invalid value: true: must be false", true},
		{"one that cannot be read", "versions: [{name: v1, schema: {openAPIV3Schema: {type: array, items: {$ref: x}}}}]",
			`NonStructuralSchema=Unknown StructuralError: failed to check validation schema for version v1: OpenAPIV3Schema '$ref' is not supported`, true},
		{"structural again", "versions: [{name: v1, schema: {openAPIV3Schema: {type: object}}}]", "", true},
	} {
		c.Spec = apiextensionsv1.CustomResourceDefinitionSpec{}
		if err := yaml.Unmarshal([]byte(step.spec), &c.Spec); err != nil {
			t.Fatal(err)
		}
		if changed := judgeStructure(c); conditions(c) != step.want || changed != step.changed {
			t.Errorf("%s (changed: %v):\ngot  %s\nwant %s", step.name, changed, conditions(c), step.want)
		}
	}
}

// TestApproval checks the condition of definitions in the groups of Kubernetes' community.
func TestApproval(t *testing.T) {
	const of = "KubernetesAPIApprovalPolicyConformant="
	for name, c := range map[string]struct{ group, approval, want string }{
		"another group": {"example.org", "", ""},
		"no annotation": {"x.k8s.io", "", of + `False MissingAnnotation: protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111`},
		"approved":      {"x.k8s.io", "https://github.com/kubernetes/kubernetes/pull/1", of + "True ApprovedAnnotation: approved in https://github.com/kubernetes/kubernetes/pull/1"},
		"bypassed":      {"x.kubernetes.io", "unapproved, a try", of + `False UnapprovedAnnotation: not approved: "unapproved, a try"`},
		"no URL":        {"k8s.io", "yes", of + `False InvalidAnnotation: protected groups must have approval annotation "api-approved.kubernetes.io" with either a URL or a reason starting with "unapproved", see https://github.com/kubernetes/enhancements/pull/1111`},
	} {
		one := named(c.group, "rods rod Rod RodList", "")
		if c.approval != "" {
			one.Annotations = map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: c.approval}
		}
		if changed := judgeApproval(one); conditions(one) != c.want || changed != (c.want != "") {
			t.Errorf("%s (changed: %v):\ngot  %s\nwant %s", name, changed, conditions(one), c.want)
		}
		if judgeApproval(one) {
			t.Errorf("%s: the second look changes the condition", name)
		}
	}
}

// TestEstablish checks when a definition becomes established, and when it is served.
func TestEstablish(t *testing.T) {
	const accepted, established = "NamesAccepted=True : ", "Established=True InitialNamesAccepted: the initial names have been accepted"
	authority := func(text string) *apiextensionsv1.CustomResourceConversion {
		return &apiextensionsv1.CustomResourceConversion{Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{CABundle: []byte(text)},
		}}
	}
	for name, c := range map[string]struct {
		change func(*crd)
		want   string
		served bool
	}{
		"accepted names":        {func(*crd) {}, accepted + "; " + established, true},
		"a name is taken":       {func(c *crd) { c.Status.Conditions[0].Status = apiextensionsv1.ConditionFalse }, "NamesAccepted=False : ", false},
		"being deleted":         {func(c *crd) { c.DeletionTimestamp = &metav1.Time{} }, accepted, true},
		"a webhook":             {func(c *crd) { c.Spec.Conversion = authority("") }, accepted + "; " + established, true},
		"an unusable authority": {func(c *crd) { c.Spec.Conversion = authority("x") }, accepted + "; Established=False InvalidCABundle: The conversion webhook CABundle is invalid", false},
		"established before": {func(c *crd) {
			c.Spec.Conversion = authority("x")
			setCondition(c, condition{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue})
		}, accepted + "; Established=True : ", true},
		"no kind": {func(c *crd) { c.Status.AcceptedNames.Kind = "" }, accepted + "; " + established, false},
	} {
		one := named("example.org", "rods rod Rod RodList", "rods rod Rod RodList")
		setCondition(one, condition{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue})
		c.change(one)
		before := conditions(one)
		if changed := establish(one); conditions(one) != c.want || changed != (before != c.want) || installable(one) != c.served {
			t.Errorf("%s (changed: %v, served: %v):\ngot  %s\nwant %s", name, changed, installable(one), conditions(one), c.want)
		}
		if establish(one) {
			t.Errorf("%s: the second look changes the condition", name)
		}
		for _, got := range one.Status.Conditions {
			if got.ObservedGeneration != 0 {
				t.Errorf("%s: %s has an observedGeneration", name, got.Type)
			}
		}
	}
}
