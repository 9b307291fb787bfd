package managedfields_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/builtin"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/custom"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/custom/conversion"
	"github.com/garboard/garboard/services/apiserver/internal/registry/managedfields"
)

// eggs is a CustomResourceDefinition with lists and maps of every type. Only v1 has a status.
const eggs = `
metadata: {name: eggs.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: eggs, singular: egg, kind: Egg, listKind: EggList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          status: {type: object, properties: {size: {type: integer}}}
          spec:
            type: object
            properties:
              size: {type: integer}
              port: {x-kubernetes-int-or-string: true}
              keyed:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name, port]
                items: {type: object, required: [name], properties: {name: {type: string}, port: {type: integer, default: 80}, ready: {type: boolean}}}
              set: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              list: {type: array, items: {type: string}}
              labels: {type: object, additionalProperties: {type: string}}
              whole: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: string}}
              any: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {set: {type: array, x-kubernetes-list-type: set, items: {type: string}}}}
  - name: v2
    served: true
    storage: false
    subresources: {scale: {specReplicasPath: .spec.count, statusReplicasPath: .status.size}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// eggWorld serves a CustomResourceDefinition.
type eggWorld struct {
	t       testing.TB
	catalog *kinds.Catalog
	owners  *managedfields.Owners
}

func newEggWorld(t testing.TB, crd string) *eggWorld {
	t.Helper()
	catalog, err := builtin.Catalog(scheme.New(), builtin.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := &eggWorld{t: t, catalog: catalog, owners: managedfields.New(managedfields.Config{Table: catalog.Table(), Definition: catalog.Of})}
	w.serve(crd)
	return w
}

// serve replaces what is served.
func (w *eggWorld) serve(text string) {
	w.t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(text), crd); err != nil {
		w.t.Fatal(err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	crd.Status.AcceptedNames = crd.Spec.Names
	converters, err := conversion.New(conversion.Config{}) // No version is converted.
	if err != nil {
		w.t.Fatal(err)
	}
	made, err := custom.Definitions(crd, converters)
	if err != nil {
		w.t.Fatal(err)
	}
	var gone []*scheme.Kind
	for _, definition := range made {
		if known := w.catalog.Find(definition.GroupVersionKind); known != nil {
			gone = append(gone, known.Kind)
			definition.Kind = known.Kind
		}
	}
	if err := w.catalog.Replace(gone, made); err != nil {
		w.t.Fatal(err)
	}
}

func (w *eggWorld) kind(version string) *scheme.Kind {
	return w.catalog.Find(schema.GroupVersionKind{Group: "example.com", Version: version, Kind: "Egg"}).Kind
}

// egg returns an object with fields in YAML.
func (w *eggWorld) egg(version, fields string) *unstructured.Unstructured {
	w.t.Helper()
	data, err := yaml.YAMLToJSON([]byte(fields))
	if err != nil {
		w.t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(data, &u.Object); err != nil { // With whole numbers, as from a request.
		w.t.Fatal(err)
	}
	u.SetGroupVersionKind(w.kind(version).GroupVersionKind)
	u.SetName("x")
	return u
}

func (w *eggWorld) apply(live scheme.Object, fields, writer string) (*unstructured.Unstructured, error) {
	w.t.Helper()
	if live == nil {
		live = w.kind("v1").New()
	}
	applied, err := w.owners.Apply(w.kind("v1"), "", live, w.egg("v1", fields), writer, false)
	if err != nil {
		return nil, err
	}
	return applied.(*unstructured.Unstructured), nil
}

// TestTwoWritersOfACustomKind has two writers apply to each type of list and map.
func TestTwoWritersOfACustomKind(t *testing.T) {
	w := newEggWorld(t, eggs)
	for name, c := range map[string]struct{ one, two, want, err string }{
		"list map": {
			one: `{spec: {keyed: [{name: a, port: 80, ready: true}]}}`, two: `{spec: {keyed: [{name: b, port: 80, ready: false}]}}`,
			want: `{spec: {keyed: [{name: a, port: 80, ready: true}, {name: b, port: 80, ready: false}]}}`,
		},
		"the same entry": {
			one: `{spec: {keyed: [{name: a, port: 80, ready: true}]}}`, two: `{spec: {keyed: [{name: a, port: 80, ready: false}]}}`,
			err: `Apply failed with 1 conflict: conflict with "one": .spec.keyed[name="a",port=80].ready`,
		},
		"a key by its default": {
			one: `{spec: {keyed: [{name: a, port: 80, ready: true}]}}`, two: `{spec: {keyed: [{name: a, ready: false}]}}`,
			err: `Apply failed with 1 conflict: conflict with "one": .spec.keyed[name="a",port=80].ready`,
		},
		"an entry twice": {
			one: `{}`, two: `{spec: {keyed: [{name: a, port: 80}, {name: a, port: 80}]}}`,
			err: `failed to create typed patch object (/x; example.com/v1, Kind=Egg): .spec.keyed: duplicate entries for key [name="a",port=80]`,
		},
		"set":        {one: `{spec: {set: [a, b]}}`, two: `{spec: {set: [b, c]}}`, want: `{spec: {set: [a, b, c]}}`},
		"list":       {one: `{spec: {list: [a]}}`, two: `{spec: {list: [b]}}`, err: `Apply failed with 1 conflict: conflict with "one": .spec.list`},
		"map":        {one: `{spec: {labels: {a: x}}}`, two: `{spec: {labels: {b: z}}}`, want: `{spec: {labels: {a: x, b: z}}}`},
		"atomic map": {one: `{spec: {whole: {a: x}}}`, two: `{spec: {whole: {b: z}}}`, err: `Apply failed with 1 conflict: conflict with "one": .spec.whole`},
		"unknown": {
			one: `{spec: {any: {a: {b: c}, set: [a]}}}`, two: `{spec: {any: {a: {d: e}, set: [b]}}}`, want: `{spec: {any: {a: {b: c, d: e}, set: [a, b]}}}`,
		},
		"number, then text": {one: `{spec: {port: 80}}`, two: `{spec: {port: http}}`, err: `Apply failed with 1 conflict: conflict with "one": .spec.port`},
		"metadata": {
			one: `{metadata: {finalizers: [a/b]}}`, two: `{metadata: {finalizers: [c/d], labels: {a: b}}}`,
			want: `{metadata: {finalizers: [a/b, c/d], labels: {a: b}}}`,
		},
		"a field that the schema lacks": {
			one: `{}`, two: `{spec: {wrong: 1}}`,
			err: `failed to create typed patch object (/x; example.com/v1, Kind=Egg): .spec.wrong: field not declared in schema`,
		},
		"another type": {
			one: `{}`, two: `{spec: {set: a}}`,
			err: `failed to create typed patch object (/x; example.com/v1, Kind=Egg): .spec.set: expected list, got &{a}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			live, err := w.apply(nil, c.one, "one")
			if err != nil {
				t.Fatal(err)
			}
			live.SetUID("u")
			got, err := w.apply(live, c.two, "two")
			if c.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), c.err) {
					t.Errorf("got the error %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got.SetManagedFields(nil)
			got.SetUID("")
			if want := w.egg("v1", c.want); !apiequality.Semantic.DeepEqual(got.Object, want.Object) {
				t.Errorf("got %v, want %v", got.Object, want.Object)
			}
		})
	}
}

// fieldsOf returns the fields that a writer owns.
func fieldsOf(obj scheme.Object, writer string) string {
	for _, entry := range obj.GetManagedFields() {
		if entry.Manager == writer {
			return entry.FieldsV1.String()
		}
	}
	return ""
}

// TestPartsOfACustomKind writes an object as a whole, and its status.
func TestPartsOfACustomKind(t *testing.T) {
	w := newEggWorld(t, eggs)
	for _, c := range []struct {
		version, part string
		owns, leaves  []string
	}{
		{"v1", "", []string{`"f:metadata"`, `k:{\"name\":\"a\",\"port\":80}`}, []string{`"f:status"`}},
		{"v1", "status", []string{`"f:size":{}`}, []string{`"f:metadata"`, `"f:spec"`}},
		{"v2", "", []string{`"f:metadata"`, `"f:status":{".":{},"f:size":{}}`, `"f:keyed":{}`}, nil},
	} {
		obj := w.egg(c.version, `{metadata: {labels: {a: b}}, spec: {keyed: [{name: a, port: 80}]}, status: {size: 1}}`)
		live := w.kind(c.version).New()
		w.owners.Update(w.kind(c.version), c.part, live, obj, "me")
		fields := fieldsOf(obj, "me")
		for _, field := range c.owns {
			if !strings.Contains(fields, field) {
				t.Errorf("%s %q does not own %s, but %s", c.version, c.part, field, fields)
			}
		}
		for _, field := range c.leaves {
			if strings.Contains(fields, field) {
				t.Errorf("%s %q owns %s: %s", c.version, c.part, field, fields)
			}
		}
	}
}

// TestSchemaOfACustomKindChanges: a list becomes a map.
func TestSchemaOfACustomKindChanges(t *testing.T) {
	const lists = "list: {type: array, items: {type: string}}"
	w := newEggWorld(t, eggs)
	live, err := w.apply(nil, `{spec: {list: [a]}}`, "one")
	if err != nil {
		t.Fatal(err)
	}
	live.SetUID("u")
	if _, err := w.apply(live, `{spec: {list: [b]}}`, "two"); err == nil {
		t.Fatal("two writers share an atomic list")
	}
	kind := w.kind("v1")
	w.serve(strings.ReplaceAll(eggs, lists, "list: {type: array, x-kubernetes-list-type: set, items: {type: string}}"))
	if w.kind("v1") != kind {
		t.Fatal("the kind is another one")
	}
	got, err := w.apply(live, `{spec: {list: [b]}}`, "two")
	if err != nil {
		t.Fatal(err)
	}
	if list, _, _ := unstructured.NestedStringSlice(got.Object, "spec", "list"); !slices.Equal(list, []string{"a", "b"}) {
		t.Errorf("the list is %q", list)
	}
}

// TestWriteUnderAnEarlierDefinition has a writer who began before the schema changed, and one who begins after.
func TestWriteUnderAnEarlierDefinition(t *testing.T) {
	w := newEggWorld(t, eggs)
	before := w.catalog.Of(w.kind("v1"))
	w.serve(strings.ReplaceAll(eggs, "size: {type: integer}", "count: {type: integer}"))
	now := w.catalog.Of(w.kind("v1"))
	const undeclared = "field not declared in schema"
	for _, c := range []struct {
		definition *kinds.Definition
		fields     string
		err        string
	}{
		{before, `{spec: {size: 1}}`, ""},
		{before, `{spec: {count: 1}}`, undeclared},
		{now, `{spec: {size: 1}}`, undeclared},
		{now, `{spec: {count: 1}}`, ""},
		{nil, `{spec: {size: 1}}`, undeclared},
		{nil, `{spec: {count: 1}}`, ""},
	} {
		_, err := w.owners.With(c.definition).Apply(w.kind("v1"), "", w.kind("v1").New(), w.egg("v1", c.fields), "one", false)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.HasSuffix(err.Error(), c.err)) {
			t.Errorf("%s: got the error %v, want %q", c.fields, err, c.err)
		}
	}
}

// TestScaleOfACustomKind takes over replicas that another version of the kind has in another field.
func TestScaleOfACustomKind(t *testing.T) {
	w := newEggWorld(t, eggs)
	kind := w.kind("v1")
	live := w.egg("v1", `{metadata: {uid: u}}`)
	live.Object["spec"] = map[string]any{"size": int64(1), "count": int64(1)}
	other := w.egg("v2", `{}`)
	other.Object["spec"] = map[string]any{"count": int64(1), "more": "x"}
	w.owners.Update(w.kind("v2"), "", w.kind("v2").New(), other, "other")
	live.SetManagedFields(other.GetManagedFields())

	scale := &autoscalingv1.Scale{}
	scale.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	scale.Name, scale.UID, scale.Spec.Replicas = "x", "u", 1
	owners, err := w.owners.Scale(kind, live, scale, []string{"spec", "size"})
	if err != nil {
		t.Fatal(err)
	}
	wanted := scale.DeepCopy()
	wanted.Spec.Replicas = 3
	entries, err := owners.Update(wanted, "me")
	if err != nil {
		t.Fatal(err)
	}
	live.SetManagedFields(entries)
	if got, want := fieldsOf(live, "me"), `{"f:spec":{"f:size":{}}}`; got != want {
		t.Errorf("the writer of the scale owns %s, want %s", got, want)
	}
	if got, want := fieldsOf(live, "other"), `{"f:spec":{".":{},"f:more":{}}}`; got != want {
		t.Errorf("the other version's writer owns %s, want %s", got, want)
	}
}

// TestWritersOfAChangingKind has writers while the kind's definition is replaced.
func TestWritersOfAChangingKind(t *testing.T) {
	w := newEggWorld(t, eggs)
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for range 50 {
				if _, err := w.apply(nil, `{spec: {keyed: [{name: a, port: 80}]}}`, "one"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 20 {
		w.serve(eggs)
	}
	writers.Wait()
}
