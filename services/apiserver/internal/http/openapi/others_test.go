package openapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/openapi"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// changing is a Source whose documents change.
type changing struct{ now *openapi.Others }

func (c *changing) OpenAPI() *openapi.Others { return c.now }

// TestOthers checks how the documents of other servers become a part of this server's.
func TestOthers(t *testing.T) {
	swagger := &spec.Swagger{}
	if err := json.Unmarshal([]byte(`{"paths": {
			"/apis/wardle.example.com/v1/flunders": {"get": {"operationId": "listFlunders", "responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/com.example.Flunder"}}}}},
			"/apis/apps/v1/deployments": {"get": {"operationId": "stolen", "responses": {"200": {"description": "OK"}}}}},
		"definitions": {"com.example.Flunder": {"type": "object", "description": "<a flunder>"}, "io.k8s.api.core.v1.Pod": {"type": "string"}},
		"parameters": {"flunder-1": {"name": "f", "in": "query", "type": "string", "uniqueItems": true}}}`), swagger); err != nil {
		t.Fatal(err)
	}
	source := &changing{now: &openapi.Others{}}
	handler := openapi.New(scheme.New(), "v1.37.2", func(*scheme.Kind) *kinds.Definition { return nil }, source)
	v2 := func() (whole struct {
		Paths, Definitions, Parameters map[string]json.RawMessage
	}) {
		t.Helper()
		res := get(t, handler, "/openapi/v2", "application/json")
		if err := json.Unmarshal(res.Body.Bytes(), &whole); err != nil {
			t.Fatal(err)
		}
		return whole
	}
	index := func() map[string]struct{ ServerRelativeURL string } {
		t.Helper()
		var found struct {
			Paths map[string]struct{ ServerRelativeURL string }
		}
		res := get(t, handler, "/openapi/v3", "application/json")
		if err := json.Unmarshal(res.Body.Bytes(), &found); err != nil {
			t.Fatal(err)
		}
		return found.Paths
	}
	before, named := v2(), index()
	const at = "/openapi/v3/apis/wardle.example.com/v1?hash=A"
	source.now = &openapi.Others{URLs: map[string]string{"apis/wardle.example.com/v1": at, "apis/batch/v1": "/openapi/v3/apis/batch/v1?hash=B"}, Swaggers: []*spec.Swagger{swagger, swagger}}
	after := v2()
	for what, counts := range map[string][2]int{
		"paths":       {len(after.Paths), len(before.Paths) + 1},
		"definitions": {len(after.Definitions), len(before.Definitions) + 1},
		"parameters":  {len(after.Parameters), len(before.Parameters) + 1},
	} {
		if counts[0] != counts[1] {
			t.Errorf("%d %s, want %d", counts[0], what, counts[1])
		}
	}
	if got := string(after.Paths["/apis/apps/v1/deployments"]); got != string(before.Paths["/apis/apps/v1/deployments"]) {
		t.Errorf("a path of this server is another's: %.200s", got)
	}
	if got := string(after.Definitions["io.k8s.api.core.v1.Pod"]); got != string(before.Definitions["io.k8s.api.core.v1.Pod"]) {
		t.Errorf("a definition of this server is another's: %.200s", got)
	}
	if got := string(after.Definitions["com.example.Flunder"]); !strings.Contains(got, "flunder") {
		t.Errorf("the definition is %s", got)
	}
	found := index()
	if len(found) != len(named)+1 || found["apis/wardle.example.com/v1"].ServerRelativeURL != at || found["apis/batch/v1"].ServerRelativeURL != "/openapi/v3/apis/batch/v1?hash=B" {
		t.Errorf("the index has %d documents, of %d before: %+v", len(found), len(named), found["apis/wardle.example.com/v1"])
	}
	binary := get(t, handler, "/openapi/v2", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
	whole := &openapi_v2.Document{}
	if err := proto.Unmarshal(binary.Body.Bytes(), whole); err != nil || len(whole.GetPaths().GetPath()) != len(after.Paths) {
		t.Errorf("as protobuf it has %d paths, %v", len(whole.GetPaths().GetPath()), err)
	}
	source.now = &openapi.Others{}
	if got := v2(); len(got.Paths) != len(before.Paths) || len(index()) != len(named) {
		t.Errorf("documents that are gone are still told of: %d paths", len(got.Paths))
	}
	if res := get(t, handler, "/openapi/v3/apis/wardle.example.com/v1", "application/json"); res.Code != http.StatusNotFound {
		t.Errorf("another server's document is served here: %d", res.Code)
	}
}
