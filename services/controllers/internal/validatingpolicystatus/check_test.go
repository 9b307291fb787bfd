package validatingpolicystatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"
	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/customkinds"
	"github.com/garboard/garboard/libs/scheme"
)

// documents are OpenAPI documents in the form in which apiservers publish them, by path.
var documents = map[string]string{
	"apis/apps/v1": `{components: {schemas: {
		io.k8s.api.apps.v1.Deployment: {type: object, x-kubernetes-group-version-kind: [{group: apps, version: v1, kind: Deployment}], properties: {
			kind: {type: string}, apiVersion: {type: string}, metadata: {default: {}, allOf: [{$ref: "#/components/schemas/Meta"}]},
			spec: {default: {}, description: d, allOf: [{$ref: "#/components/schemas/Spec"}]}}},
		io.k8s.api.apps.v1.ReplicaSet: {type: object, x-kubernetes-group-version-kind: [{group: apps, version: v1, kind: ReplicaSet}], properties: {
			spec: {$ref: "#/components/schemas/Gone"}}},
		Meta: {type: object, properties: {name: {type: string}, generateName: {type: string}, labels: {type: object, additionalProperties: {type: string, default: ""}}}},
		Spec: {type: object, properties: {replicas: {type: integer, format: int32}, parts: {type: array, items: {$ref: "#/components/schemas/Part"}},
			byName: {type: object, additionalProperties: {$ref: "#/components/schemas/Part"}}}},
		Part: {type: object, properties: {image: {type: string}, inner: {$ref: "#/components/schemas/Part"}}}}}}`,
	"api/v1": `{components: {schemas: {
		ConfigMap: {type: object, x-kubernetes-group-version-kind: [{group: "", version: v1, kind: ConfigMap}], properties: {
			data: {type: object, additionalProperties: {type: string}}}}}}}`,
	"apis/example.com/v1": `{components: {schemas: {
		com.example.v1.Gadget: {type: object, x-kubernetes-group-version-kind: [{group: example.com, version: v1, kind: Gadget}], properties: {
			spec: {type: object, properties: {size: {type: string}}}}}}}}`,
}

// documentAt returns the document at a path, as JSON.
func documentAt(path string) ([]byte, error) {
	text, ok := documents[path]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, path)
	}
	return yaml.YAMLToJSON([]byte(strings.ReplaceAll(text, "\t", " ")))
}

// published are the documents as Kubernetes' resolver reads them.
type published struct{ discovery.DiscoveryInterface }

func (p published) OpenAPIV3() openapi.Client { return p }

func (published) Paths() (map[string]openapi.GroupVersion, error) {
	paths := map[string]openapi.GroupVersion{}
	for path := range documents {
		paths[path] = at(path)
	}
	return paths, nil
}

type at string

func (a at) Schema(string) ([]byte, error) { return documentAt(string(a)) }
func (a at) ServerRelativeURL() string     { return "/openapi/v3/" + string(a) }

// mapper has the kinds of a table, as far as Kubernetes' type checker asks for them.
type mapper struct {
	meta.RESTMapper
	of *meta.DefaultRESTMapper
}

func (m mapper) KindsFor(of schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return m.of.KindsFor(of)
}

func mapperOf(table *scheme.Table) mapper {
	m := mapper{of: meta.NewDefaultRESTMapper(nil)}
	for _, kind := range table.Kinds() {
		gv := kind.GroupVersion()
		m.of.AddSpecific(kind.GroupVersionKind, gv.WithResource(kind.Resource), gv.WithResource(kind.Singular), meta.RESTScopeRoot)
	}
	return m
}

// known is a stub of the definitions of custom resources.
type known func() error

func (k known) Refresh(context.Context) error { return k() }

// gadgets returns the kinds of a definition.
func gadgets(t *testing.T) []*scheme.Kind {
	t.Helper()
	names := apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Singular: "gadget", Kind: "Gadget", ListKind: "GadgetList"}
	kinds, err := customkinds.Kinds(&apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gadgets.example.com"},
		Status:     apiextensionsv1.CustomResourceDefinitionStatus{AcceptedNames: names},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped, Names: names,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}

// newChecker returns a controller that reads the documents.
func newChecker(definitions Definitions) (*checker, *fake.Client) {
	c := fake.New(scheme.New())
	c.OnDocument(func(path string) ([]byte, error) { return documentAt(strings.TrimPrefix(path, "/openapi/v3/")) })
	return &checker{client: c, definitions: definitions}, c
}

// numbered are the names of types, in which Kubernetes has the time.
var numbered = regexp.MustCompile(`\b(Deployment|ReplicaSet|ConfigMap|Gadget)\d+`)

// TestWarningsAreKubernetes compares the warnings about policies with those of Kubernetes' type checker.
func TestWarningsAreKubernetes(t *testing.T) {
	const deployments = "matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE]}]}\n"
	for _, tc := range []struct {
		name, spec string
		warnings   int
	}{
		{"nothing wrong", deployments + "validations: [{expression: 'object.spec.replicas < 5 && object.metadata.labels.a == \"b\"', messageExpression: 'object.metadata.name'}]", 0},
		{"an unknown field", deployments + "validations: [{expression: object.spec.replica < 5}]", 1},
		{"a wrong type", deployments + "validations: [{expression: 'object.spec.replicas < \"5\"'}, {expression: 'oldObject == 5'}]", 2},
		{"in a message", deployments + "validations: [{expression: 'true', messageExpression: object.spec.nothing}]", 1},
		{"of parts", deployments + "validations: [{expression: 'object.spec.parts.all(p, p.img == \"a\")'}, {expression: 'object.spec.byName[\"a\"].inner.image == \"a\" && object.spec.byName.x.image2 == 1'}]", 2},
		{"behind a circle", deployments + "validations: [{expression: 'object.spec.parts[0].inner.inner.img == 1'}]", -1},
		{"no boolean", deployments + "validations: [{expression: object.spec.replicas}]", 0},
		{"the request", deployments + "validations: [{expression: request.nam == 'a'}, {expression: request.userInfo.username == 'a'}, {expression: namespaceObject.metadata.nam == 'a'}]", 2},
		{"the authorizer", deployments + "validations: [{expression: 'authorizer.group(\"\").resource(\"pods\").check(\"get\").allowed()'}, {expression: authorizer.nothing()}]", 1},
		{"no syntax", deployments + "validations: [{expression: 'object.'}]", 1},
		{"variables", deployments + "variables: [{name: n, expression: object.spec.replicas}, {name: m, expression: variables.n + 1}]\n" +
			"validations: [{expression: 'variables.m < \"a\"'}, {expression: variables.m < 4}, {expression: variables.o}]", 1},
		{"a faulty variable", deployments + "variables: [{name: n, expression: object.spec.nothing}]\nvalidations: [{expression: variables.n < 4}]", 1},
		{"parameters", deployments + "paramKind: {apiVersion: v1, kind: ConfigMap}\nvalidations: [{expression: 'params.data.x == 1'}, {expression: params.date == null}]", 2},
		{"parameters of no schema", deployments + "paramKind: {apiVersion: v1, kind: Secret}\nvalidations: [{expression: params.anything == 1}]", 0},
		{"parameters of no version", deployments + "paramKind: {apiVersion: a/b/c, kind: Secret}\nvalidations: [{expression: params.anything == 1}]", 1},
		{"no parameters", deployments + "validations: [{expression: params.anything == 1}]", 1},
		{"several kinds", "matchConstraints: {resourceRules: [{apiGroups: [apps, ''], apiVersions: [v1], resources: [deployments, configmaps, deployments/status]}]}\n" +
			"validations: [{expression: object.nothing == 1}, {expression: has(object.spec)}]", 2},
		{"the singular, in capitals", strings.Replace(deployments, "deployments", "Deployment", 1) + "validations: [{expression: object.nothing == 1}]", 1},
		{"a group that is empty", strings.Replace(deployments, "apps", "''", 1) + "validations: [{expression: object.nothing == 1}]", 1},
		{"a kind of no schema", strings.Replace(deployments, "deployments", "daemonsets", 1) + "validations: [{expression: object.nothing == 1}]", 0},
		{"a version of no document", strings.NewReplacer("apps", "batch", "deployments", "jobs").Replace(deployments) + "validations: [{expression: object.nothing == 1}]", 0},
		{"an unknown resource", strings.Replace(deployments, "deployments", "nothings", 1) + "validations: [{expression: object.nothing == 1}]", 0},
		{"all groups", strings.Replace(deployments, "apps", "'*'", 1) + "validations: [{expression: object.nothing == 1}]", 0},
		{"all versions", strings.Replace(deployments, "v1", "'*'", 1) + "validations: [{expression: object.nothing == 1}]", 0},
		{"all resources", strings.Replace(deployments, "deployments", "'*'", 1) + "validations: [{expression: object.nothing == 1}]", 0},
		{"no constraints", "validations: [{expression: object.nothing == 1}]", 0},
		{"a custom kind", strings.NewReplacer("apps", "example.com", "deployments", "gadgets").Replace(deployments) + "validations: [{expression: object.spec.size > 1}]", 1},
		{"more kinds than count", "matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], resources: [bindings, componentstatuses, configmaps, endpoints, " +
			"events, limitranges, namespaces, nodes, pods, secrets]}, {apiGroups: [apps], apiVersions: [v1], resources: [deployments]}]}\n" +
			"validations: [{expression: object.spec.nothing == 1}]", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &registrationv1.ValidatingAdmissionPolicy{}
			if err := yaml.UnmarshalStrict([]byte(tc.spec), &p.Spec); err != nil {
				t.Fatal(err)
			}
			c, api := newChecker(known(func() error { return nil }))
			if err := api.Table().Install(gadgets(t)...); err != nil {
				t.Fatal(err)
			}
			got, err := c.check(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			upstream := &validating.TypeChecker{
				SchemaResolver: &resolver.ClientDiscoveryResolver{Discovery: published{}}, RestMapper: mapperOf(api.Table()),
			}
			want := upstream.Check(p)
			for _, warnings := range [][]registrationv1.ExpressionWarning{got, want} {
				for i := range warnings {
					warnings[i].Warning = numbered.ReplaceAllString(warnings[i].Warning, "$1#")
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-Kubernetes +got):\n%s", diff)
			}
			if tc.warnings >= 0 && len(got) != tc.warnings {
				t.Errorf("got %d warnings, want %d: %v", len(got), tc.warnings, got)
			}
		})
	}
}

// TestCustomKindsAreAwaited checks that a kind which is not in the table yet is looked for again.
func TestCustomKindsAreAwaited(t *testing.T) {
	p := &registrationv1.ValidatingAdmissionPolicy{}
	err := yaml.UnmarshalStrict([]byte("matchConstraints: {resourceRules: [{apiGroups: [example.com], apiVersions: [v1], resources: [nothings, gadgets, others]}]}\n"+
		"validations: [{expression: object.spec.size > 1}]"), &p.Spec)
	if err != nil {
		t.Fatal(err)
	}
	refreshed := 0
	var c *checker
	var api *fake.Client
	c, api = newChecker(known(func() error {
		refreshed++
		return api.Table().Install(gadgets(t)...)
	}))
	if got, err := c.check(t.Context(), p); err != nil || len(got) != 1 || refreshed != 1 {
		t.Errorf("got %v, %v after %d refreshes", got, err, refreshed)
	}
	c, _ = newChecker(known(func() error { return errors.New("no apiserver") }))
	if _, err := c.check(t.Context(), p); err == nil || !strings.Contains(err.Error(), "no apiserver") {
		t.Errorf("without the definitions: got %v", err)
	}
}

// TestFaultyDocuments checks that only a document that is not there counts as none.
func TestFaultyDocuments(t *testing.T) {
	p := &registrationv1.ValidatingAdmissionPolicy{}
	err := yaml.UnmarshalStrict([]byte("matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments, replicasets]}]}"), &p.Spec)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		document string
		err      error
		want     string
	}{
		"not found":            {"", apierrors.NewNotFound(schema.GroupResource{}, "x"), ""},
		"busy":                 {"", apierrors.NewTooManyRequests("busy", 1), "reading /openapi/v3/apis/apps/v1: busy"},
		"garbage":              {"[", nil, "reading /openapi/v3/apis/apps/v1: unexpected end of JSON input"},
		"a dangling reference": {mustDocument(t, "apis/apps/v1"), nil, `reading the schema of apps/v1, Kind=ReplicaSet: it refers to "Gone", which is not there`},
	} {
		t.Run(name, func(t *testing.T) {
			c, api := newChecker(known(func() error { return nil }))
			api.OnDocument(func(string) ([]byte, error) { return []byte(tc.document), tc.err })
			_, err := c.check(t.Context(), p)
			if (err == nil) != (tc.want == "") || err != nil && err.Error() != tc.want {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func mustDocument(t *testing.T, path string) string {
	t.Helper()
	data, err := documentAt(path)
	if err != nil || !json.Valid(data) {
		t.Fatal(err)
	}
	return string(data)
}

// TestHostilePolicies checks that the work for one policy is bounded.
func TestHostilePolicies(t *testing.T) {
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	rule := registrationv1.NamedRuleWithOperations{}
	rule.APIGroups, rule.APIVersions, rule.Resources = names, names, slices.Concat(names, []string{"pods"})
	c, _ := newChecker(known(func() error { return nil }))
	found, err := c.kindsOf(t.Context(), &registrationv1.MatchResources{ResourceRules: []registrationv1.NamedRuleWithOperations{rule}})
	if err != nil || len(found) > 0 {
		t.Errorf("got %v, %v", found, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	p := &registrationv1.ValidatingAdmissionPolicy{Spec: registrationv1.ValidatingAdmissionPolicySpec{Validations: []registrationv1.Validation{{Expression: "true"}}}}
	if _, err := c.check(ended, p); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
