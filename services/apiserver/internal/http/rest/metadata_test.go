package rest_test

import (
	"encoding/json"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/services/apiserver/internal/http/rest/resttest"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

// sent is a response, as far as it has an object's metadata.
type sent struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Rows       []row            `json:"rows"`
	Items      []map[string]any `json:"items"`
}

type row struct {
	Object map[string]any `json:"object"`
}

// TestMetadataAlone compares the metadata of an object in a list, which is cut from what etcd has, with that of the
// object alone, which is encoded.
func TestMetadataAlone(t *testing.T) {
	w := newWorld(t)
	registrytest.Serve(t, w.Catalog, registrytest.Eggs("size: {type: string}"))
	w.Script([]resttest.Step{
		{Send: "PATCH " + eggsPath + "/a?fieldManager=me", Header: applied, Want: "201 Egg a a=b",
			Body: `{"apiVersion":"example.com/v1","kind":"Egg","metadata":{"name":"a","labels":{"a":"b"},"annotations":{"x":"<\"{"}},"spec":{"size":"s"}}`},
		{Send: "POST " + maps, Body: `{"metadata":{"name":"a","labels":{"a":"b"}},"data":{"k":"v"}}`, Want: "201 ConfigMap a a=b"},
	})
	get := func(path, media, as, version string) (got sent) {
		t.Helper()
		body := w.Send("GET "+path, "Accept: "+media+";as="+as+";g=meta.k8s.io;v="+version, "").Body
		data, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		if media == "application/yaml" {
			if data, err = yaml.YAMLToJSON(data); err != nil {
				t.Fatal(err)
			}
		}
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatalf("%s: %v: %s", path, err, data)
		}
		if got.APIVersion != "meta.k8s.io/"+version || got.Kind != as {
			t.Errorf("%s: got a %s of %s, want a %s of %s", path, got.Kind, got.APIVersion, as, version)
		}
		return got
	}
	for path, kind := range map[string]string{eggsPath: "Egg", maps: "ConfigMap"} {
		for _, media := range []string{"application/json", "application/yaml"} {
			for _, version := range []string{"v1", "v1beta1"} {
				for query, want := range map[string]string{
					"": "PartialObjectMetadata", "?includeObject=Metadata": "PartialObjectMetadata", "?includeObject=Object": kind, "?includeObject=None": "",
				} {
					one := get(path+"/a"+query, media, "Table", version).Rows
					all := get(path+query, media, "Table", version).Rows
					if diff := cmp.Diff(one, all[:1]); diff != "" {
						t.Errorf("%s%s as %s: (-alone +in the list)\n%s", path, query, media, diff)
					}
					if got, _ := all[0].Object["kind"].(string); got != want {
						t.Errorf("%s%s as %s: the row has a %q, want a %q", path, query, media, got, want)
					}
				}
				items := get(path, media, "PartialObjectMetadataList", version).Items
				one := get(path+"/a", media, "Table", version).Rows[0].Object
				if diff := cmp.Diff(one, items[0]); diff != "" {
					t.Errorf("%s as %s: the metadata (-alone +in the list)\n%s", path, media, diff)
				}
			}
		}
	}
}
