package apiextensions

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

// TestMain tolerates Kubernetes' logger, which flushes for as long as the process runs.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

const version = "{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}"

// define returns the definition gadgets.example.org with versions in YAML, as a new one that is stored.
func define(t *testing.T, versions string) crd {
	t.Helper()
	c := defaulted(t, versions)
	CustomResourceDefinition().PrepareForCreate(c)
	return c
}

func defaulted(t *testing.T, versions string) crd {
	t.Helper()
	c := &apiextensionsv1.CustomResourceDefinition{}
	c.Name, c.UID, c.ResourceVersion = "gadgets.example.org", "u", "1"
	c.CreationTimestamp = kindtest.Ago(time.Hour)
	text := "group: example.org\nscope: Namespaced\nnames: {plural: gadgets, kind: Gadget, shortNames: [gd, ga]}\nversions: [" + versions + "]"
	if err := yaml.UnmarshalStrict([]byte(text), &c.Spec); err != nil {
		t.Fatal(err)
	}
	CustomResourceDefinition().Default(c)
	return c
}

// TestDefaults checks what a client may omit.
func TestDefaults(t *testing.T) {
	c := defaulted(t, version)
	if names := c.Spec.Names; names.Singular != "gadget" || names.ListKind != "GadgetList" || c.Spec.Conversion.Strategy != apiextensionsv1.NoneConverter {
		t.Errorf("got %+v", c.Spec)
	}
}

// TestPreparation checks which parts of a definition its writers can change, and what is recorded of it.
func TestPreparation(t *testing.T) {
	kind := CustomResourceDefinition()
	c := defaulted(t, version)
	c.Status.AcceptedNames.Plural = "chosen"
	kind.PrepareForCreate(c)
	if c.Generation != 1 || c.Status.AcceptedNames.Plural != "" || !slices.Equal(c.Status.StoredVersions, []string{"v1"}) {
		t.Errorf("created: %d, %+v", c.Generation, c.Status)
	}
	next := c.DeepCopy()
	next.Spec.Versions[0].Storage = false
	next.Spec.Versions = append(next.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: "v2", Storage: true})
	next.Status = apiextensionsv1.CustomResourceDefinitionStatus{AcceptedNames: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Chosen"}}
	kind.Update.Prepare(next, c)
	if next.Generation != 2 || next.Status.AcceptedNames.Kind != "" || !slices.Equal(next.Status.StoredVersions, []string{"v1", "v2"}) || len(c.Status.StoredVersions) != 1 {
		t.Errorf("updated: %d, %+v", next.Generation, next.Status)
	}
	back := next.DeepCopy()
	back.Spec.Versions[0].Storage, back.Spec.Versions[1].Storage = true, false
	if kind.Update.Prepare(back, next); !slices.Equal(back.Status.StoredVersions, []string{"v1", "v2"}) {
		t.Errorf("stored as before: %q", back.Status.StoredVersions)
	}
	status := c.DeepCopy()
	status.Spec.Group, status.Status.StoredVersions = "example.com", nil
	if kind.Subresources["status"].Prepare(status, c); status.Spec.Group != "example.org" || len(status.Status.StoredVersions) != 0 {
		t.Errorf("a write of the status: %+v", status)
	}
}

// TestTerminating checks that a definition stays until its custom resources are deleted.
func TestTerminating(t *testing.T) {
	kind, c := CustomResourceDefinition(), define(t, version)
	if !kind.ConditionalUpdate || kind.Held(c) {
		t.Error("a PUT without a resourceVersion is accepted, or a new definition is held")
	}
	for range 2 { // The second deletion finds what the first one left.
		kind.Terminating(c)
	}
	if !slices.Equal(c.Finalizers, []string{"customresourcecleanup.apiextensions.k8s.io"}) || len(c.Status.Conditions) != 1 ||
		c.Status.Conditions[0].Type != apiextensionsv1.Terminating || c.Status.Conditions[0].Reason != "InstanceDeletionPending" {
		t.Errorf("got %q, %+v", c.Finalizers, c.Status.Conditions)
	}
	if !kind.Held(c) {
		t.Error("a definition with custom resources is not held")
	}
}

// TestValidation checks that Kubernetes' rules are applied, for each way to write.
func TestValidation(t *testing.T) {
	kind := CustomResourceDefinition()
	if errs := kind.Validate(define(t, version)); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
	for versions, want := range map[string]string{
		"{name: v1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}": "spec.versions: Invalid value: [",
		"{name: v1, served: true, storage: true}":                                             "spec.versions[0].schema.openAPIV3Schema: Required value",
		"{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {}}}":              "spec.validation.openAPIV3Schema.type: Required value: must not be empty at the root",
	} {
		if errs := kind.Validate(define(t, versions)); len(errs) == 0 || !strings.Contains(errs.ToAggregate().Error(), want) {
			t.Errorf("%s: got %v, want %s", versions, errs.ToAggregate(), want)
		}
	}
	old := define(t, version)
	old.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	next := old.DeepCopy()
	if errs := kind.Update.Validate(next, old); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
	next.Spec.Scope = apiextensionsv1.ClusterScoped
	if errs := kind.Update.Validate(next, old); len(errs) != 1 || errs[0].Field != "spec.scope" || errs[0].Detail != "field is immutable" {
		t.Errorf("another scope: %v", errs)
	}
	if next = old.DeepCopy(); len(kind.Subresources["status"].Validate(next, old)) > 0 {
		t.Error("the same status is not accepted")
	}
	next.Name = "others.example.org"
	if errs := kind.Subresources["status"].Validate(next, old); len(errs) == 0 || errs[0].Field != "metadata.name" {
		t.Errorf("another name: %v", errs)
	}
}

// TestWarnings checks the warnings of parts of a schema without effect: of all in a new definition, and of
// the new ones in a changed one.
func TestWarnings(t *testing.T) {
	kind := CustomResourceDefinition()
	with := func(properties string) crd {
		return define(t, "{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {"+properties+"}}}}")
	}
	const (
		odd, odder, fine = "a: {type: string, format: odd}", "b: {type: string, format: odder}", "c: {type: string, format: date}"
		set              = "d: {type: array, x-kubernetes-list-type: set, items: {type: array, items: {type: string}}}"
		warned           = `x-kubernetes-list-type: set for items of type "array" is not supported by server-side apply or CEL validation rules`
	)
	if got, want := kind.CreationWarnings(with(odd+", "+fine+", "+set)), []string{`unrecognized format "odd"`, warned}; !slices.Equal(got, want) {
		t.Errorf("created: got %q, want %q", got, want)
	}
	for _, c := range []struct {
		old, changed string
		want         []string
	}{
		{odd + ", " + set, odd + ", " + set + ", " + odder, []string{`unrecognized format "odder"`}},
		{odd, odd + ", " + set, []string{warned}},
		{odd, fine, nil},
	} {
		if got := kind.Update.Warnings(with(c.changed), with(c.old)); !slices.Equal(got, c.want) {
			t.Errorf("%s -> %s: got %q, want %q", c.old, c.changed, got, c.want)
		}
	}
}

// TestRow checks what kubectl prints.
func TestRow(t *testing.T) {
	c := define(t, "{name: v2, served: true, storage: false}, {name: v1, served: true, storage: true}, {name: v0, served: false, storage: false}")
	c.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	kindtest.Row(t, CustomResourceDefinition(), c,
		[]string{"Name", "Scope", "Versions", "Created At", "Group*", "Kind*", "ShortNames*", "Established*"},
		[]any{"gadgets.example.org", "Namespaced", "v1(storage),v2", kindtest.Ago(time.Hour).UTC().Format(time.RFC3339), "example.org", "Gadget", "gd,ga", true})
}
