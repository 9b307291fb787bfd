package openapi

import (
	"encoding/json"
	"reflect"
	"testing"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/openapi/generated"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// wholeDefinitions returns what returns all definitions, with those of the custom kinds.
func wholeDefinitions(d documents, v2 bool) common.GetOpenAPIDefinitions {
	return func(ref common.ReferenceCallback) models {
		found := generated.GetOpenAPIDefinitions(ref)
		for _, one := range d.subjects {
			if one.Custom {
				object, list := modelOf(one.Kind, false).name, modelOf(one.Kind, true).name
				found[object] = common.OpenAPIDefinition{Schema: one.object(v2), Dependencies: []string{kinds.ObjectMetaModel}}
				found[list] = common.OpenAPIDefinition{Schema: one.list(v2), Dependencies: []string{object, kinds.ListMetaModel}}
			}
		}
		return found
	}
}

// decoded returns JSON as Go's own types.
func decoded(t *testing.T, data []byte) (value map[string]any) {
	t.Helper()
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// compareDocuments tells in which members of which maps two documents differ.
func compareDocuments(t *testing.T, at string, got, want map[string]any) {
	t.Helper()
	for name := range want {
		one, isMap := got[name].(map[string]any)
		other, areMaps := want[name].(map[string]any)
		switch {
		case reflect.DeepEqual(got[name], want[name]):
		case isMap && areMaps && (at == "" || at == ".components"):
			compareDocuments(t, at+"."+name, one, other)
		default:
			t.Errorf("%s.%s: got %v, want %v", at, name, got[name], want[name])
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s.%s: got %v, want nothing", at, name, got[name])
		}
	}
}

// TestPartsMakeTheWhole: documents that are joined of parts say what the library says that reads all kinds at
// once, of custom kinds in groups of their own and in one with built-in kinds.
func TestPartsMakeTheWhole(t *testing.T) {
	table, all := scheme.New(), known{}
	plain := gadget("plain.example.com", "size")
	plain.Kind.Subresources, plain.OpenAPI = nil, nil
	plain.Namespaced = false
	second := gadget("b.example.com", "size")
	second.Kind.Kind, second.Resource, second.StoragePrefix = "Another", "others", "b.example.com/others"
	install(t, table, all, gadget("b.example.com", "color"), plain, second, gadget("apps", "shape"), gadget("a.example.com", "color"))
	h := New(table, "v1.37.2", all.of, &Others{})
	d := newDocuments(table, "v1.37.2")
	d.subjects = subjectsOf(scheme.Served(table.Kinds()), all.of)

	wantV2, err := d.v2(append(containers(d.subjects, d.types), aboutAll(d.builtin())...), wholeDefinitions(d, true))
	if err != nil {
		t.Fatal(err)
	}
	text, err := wantV2.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	read(t, h, v2Path, &got)
	compareDocuments(t, "", got, decoded(t, text))

	for gv, of := range d.byGroupVersion() {
		paths, mixed := containers(of.subjects, d.types), len(of.builtin()) > 0
		if mixed {
			paths = append(paths, resourceLists(of.builtin(), &gv)...)
		}
		wantV3, err := of.v3(paths, wholeDefinitions(of, false))
		if err != nil {
			t.Fatal(err)
		}
		if !mixed {
			wantV3.Info.Title, wantV3.Info.Version = "Kubernetes CRD Swagger", "v0.1.0"
			wantV3.Components.SecuritySchemes = nil
		}
		if text, err = encode(wantV3, nil); err != nil {
			t.Fatal(err)
		}
		got = nil
		read(t, h, v3Path+rootPath(gv), &got)
		compareDocuments(t, "", got, decoded(t, text))
	}
}

// TestDocumentDoesNotDependOnTheOrder: apiservers that learned of kinds in another order serve one document.
func TestDocumentDoesNotDependOnTheOrder(t *testing.T) {
	var etags [2][2]string
	for i := range etags {
		table, all := scheme.New(), known{}
		second := gadget("a.example.com", "size")
		second.Kind.Kind, second.Resource, second.StoragePrefix = "Another", "others", "a.example.com/others"
		definitions := []*kinds.Definition{gadget("a.example.com", "color"), second}
		install(t, table, all, definitions[i], definitions[1-i])
		s := New(table, "v1.37.2", all.of, &Others{}).documents.Get()
		for j, one := range []*document{s.v2, s.v3[v3Path+"/apis/a.example.com/v1"]} {
			etag, _, err := one.version()
			if err != nil {
				t.Fatal(err)
			}
			etags[i][j] = etag
		}
	}
	if etags[0] != etags[1] {
		t.Errorf("ETags differ with the order of kinds: %v", etags)
	}
}

// TestSharedDefinitions: documents that are built at once do not see what the library adds for others, and
// nothing is kept afterwards.
func TestSharedDefinitions(t *testing.T) {
	var s shared
	ref := func(name string) spec.Ref { return kinds.ModelRef(name, false) }
	err := s.during(func() error {
		one := s.definitions(ref)[kinds.ObjectMetaModel]
		one.Schema.AddExtension("x-of-one", true)
		if two := s.definitions(ref)[kinds.ObjectMetaModel]; two.Schema.Extensions["x-of-one"] != nil || len(two.Schema.Properties) == 0 {
			t.Errorf("the second document gets %+v", two.Schema)
		}
		if s.found == nil {
			t.Error("the definitions are generated for each document")
		}
		return nil
	})
	if err != nil || s.found != nil || s.users != 0 {
		t.Errorf("afterwards %d definitions are kept for %d users (%v)", len(s.found), s.users, err)
	}
}
