package aggregation

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

const (
	togetherType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	v1Path       = "/apis/wardle.example.com/v1"
	name         = "v1.wardle.example.com"
)

// documents is a server of documents by their paths: "TYPE BODY", or a status code alone.
type documents map[string]string

func (d documents) serve(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Remote-User") != "system:kube-aggregator" || r.Header.Get("X-Remote-Group") != "system:masters" {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	kind, body, found := strings.Cut(d[r.URL.Path], " ")
	if !found {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = io.WriteString(w, body)
}

// TestDescribe checks what is taken over of what a server says it serves.
func TestDescribe(t *testing.T) {
	const plain = `application/json {"kind":"APIResourceList","groupVersion":"wardle.example.com/v1","resources":[
		{"name":"flunders/status","namespaced":true,"kind":"Flunder","verbs":["get"]},
		{"name":"flunders","singularName":"flunder","namespaced":true,"kind":"Flunder","verbs":["get","list"],"shortNames":["fl"],"categories":["all"]},
		{"name":"flunders/scale","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":["get"]},
		{"name":"fischers","kind":"Fischer","verbs":["list"]}]}`
	const both = `flunders Namespaced wardle.example.com/v1 Flunder [get list] [fl] [all] status:wardle.example.com/v1 Flunder scale:autoscaling/v1 Scale; ` +
		`fischers Cluster wardle.example.com/v1 Fischer [list] [] []; `
	for test, tc := range map[string]struct {
		documents documents
		want      string
		openAPI   string
		swagger   string
		fault     string
	}{
		"together": {documents: documents{"/apis": togetherType + ` {"items":[
			{"metadata":{"name":"other"},"versions":[{"version":"v1","resources":[{"resource":"pods"}]}]},
			{"metadata":{"name":"wardle.example.com"},"versions":[{"version":"v2","resources":[{"resource":"others"}]},
			{"version":"v1","resources":[{"resource":"flunders","scope":"Namespaced","verbs":["get"],"subresources":[{"subresource":"status"}]}]}]}]}`},
			want: "flunders Namespaced / [get] [] [] status:/ ; "},
		"plain":            {documents: documents{"/apis": `application/json {"kind":"APIGroupList"}`, v1Path: plain}, want: both},
		"nothing at /apis": {documents: documents{v1Path: plain}, want: both},
		"not in it":        {documents: documents{"/apis": togetherType + ` {"items":[]}`}},
		"nothing":          {documents: documents{}, fault: "bad status from /apis/wardle.example.com/v1: 404"},
		"garbage":          {documents: documents{"/apis": togetherType + " {"}, fault: "reading the discovery document"},
		"garbage, plain":   {documents: documents{v1Path: "application/json []"}, fault: "reading the discovery document"},
		"too much":         {documents: documents{"/apis": togetherType + " " + strings.Repeat(" ", maxDescription+1)}, fault: "has more than"},
		"with a document":  {documents: documents{v1Path: plain, "/openapi/v3": `application/json {"paths":{"apis/wardle.example.com/v1":{"serverRelativeURL":"/openapi/v3/apis/wardle.example.com/v1?hash=A"},"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1?hash=B"}}}`}, want: both, openAPI: "/openapi/v3/apis/wardle.example.com/v1?hash=A"},
		"a document elsewhere": {documents: documents{v1Path: plain, "/openapi/v3": `application/json {"paths":{"apis/wardle.example.com/v1":{"serverRelativeURL":"https://example.com/openapi/v3/apis/wardle.example.com/v1"}}}`},
			want: both, fault: `is said to be at "https://example.com/`},
		"a document of another": {documents: documents{v1Path: plain, "/openapi/v3": `application/json {"paths":{"apis/wardle.example.com/v1":{"serverRelativeURL":"/openapi/v3/api/v1"}}}`},
			want: both, fault: `is said to be at "/openapi/v3/api/v1"`},
		"OpenAPI v2": {documents: documents{v1Path: plain, "/openapi/v2": `application/json {"paths":{"/apis/wardle.example.com/v1/flunders":{"get":{"responses":{"200":{"schema":{"$ref":"#/definitions/a"}}}}},
			"/api/v1/pods":{"get":{"responses":{"200":{"schema":{"$ref":"#/definitions/b"}}}}}},"definitions":{"a":{"type":"object"},"b":{"type":"object"}}}`}, want: both, swagger: "/apis/wardle.example.com/v1/flunders a"},
		"a cycle in OpenAPI v2": {documents: documents{v1Path: plain, "/openapi/v2": `application/json {"paths":{"/apis/wardle.example.com/v1/flunders":{"get":{"responses":{"200":{"schema":{"$ref":"#/definitions/a"}}}}}},
			"definitions":{"a":{"properties":{"b":{"$ref":"#/definitions/a"}}}}}`}, want: both, swagger: "/apis/wardle.example.com/v1/flunders a"},
		"an empty OpenAPI v2":  {documents: documents{v1Path: plain, "/openapi/v2": `application/json {}`}, want: both},
		"a garbled OpenAPI v2": {documents: documents{v1Path: plain, "/openapi/v2": `application/json {"paths":[]}`}, want: both, fault: "reading OpenAPI v2"},
		"a garbled index":      {documents: documents{v1Path: plain, "/openapi/v3": "application/json []"}, want: both, fault: "reading the index"},
	} {
		t.Run(test, func(t *testing.T) {
			w := newWorld(t, tc.documents.serve)
			err := w.apis.Describe(t.Context(), name)
			if (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("got the error %v, want %q", err, tc.fault)
			}
			if others := w.apis.Discovery(); len(others.APIs) != 1 || texts(others.APIs[0].Resources) != tc.want {
				t.Errorf("got  %s\nwant %s", texts(others.APIs[0].Resources), tc.want)
			} else if others.APIs[0].Current != (tc.fault == "" || tc.want != "") {
				t.Errorf("it is current: %t", others.APIs[0].Current)
			}
			if got := w.apis.OpenAPI().URLs["apis/wardle.example.com/v1"]; got != tc.openAPI || len(w.apis.OpenAPI().URLs) > 1 {
				t.Errorf("its document is at %q, want %q", got, tc.openAPI)
			}
			if got := swaggers(w.apis.OpenAPI().Swaggers); got != tc.swagger {
				t.Errorf("of OpenAPI v2 it has %q, want %q", got, tc.swagger)
			}
			if w.apis.Serves("/openapi/v3/apis/wardle.example.com/v1") != (tc.openAPI != "") {
				t.Errorf("requests for its document are passed on: %t", tc.openAPI == "")
			}
		})
	}
}

func swaggers(all []*spec.Swagger) string {
	var names []string
	for _, one := range all {
		if one.Paths != nil {
			names = append(names, slices.Sorted(maps.Keys(one.Paths.Paths))...)
		}
		names = append(names, slices.Sorted(maps.Keys(one.Definitions))...)
	}
	return strings.Join(names, " ")
}

func texts(resources []apidiscoveryv2.APIResourceDiscovery) string {
	var text strings.Builder
	kind := func(k *metav1.GroupVersionKind) string { return k.Group + "/" + k.Version + " " + k.Kind }
	for _, r := range resources {
		list := func(of []string) string { return "[" + strings.Join(of, " ") + "] " }
		text.WriteString(r.Resource + " " + string(r.Scope) + " " + strings.TrimSpace(kind(r.ResponseKind)) + " " + list(r.Verbs) + list(r.ShortNames) + strings.TrimSpace(list(r.Categories)))
		for _, s := range r.Subresources {
			text.WriteString(" " + s.Subresource + ":" + kind(s.ResponseKind))
		}
		text.WriteString("; ")
	}
	return text.String()
}

// TestStale checks that what a server said remains when it no longer answers, marked as old, and that documents
// are the same as long as nothing has changed.
func TestStale(t *testing.T) {
	var gone atomic.Bool
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		if gone.Load() {
			http.Error(rw, "later", http.StatusServiceUnavailable)
			return
		}
		documents{"/apis": togetherType + ` {"items":[{"metadata":{"name":"wardle.example.com"},"versions":[{"version":"v1","resources":[{"resource":"flunders"}]}]}]}`}.serve(rw, r)
	})
	describe := func(want bool) {
		t.Helper()
		if err := w.apis.Describe(t.Context(), name); (err == nil) != want {
			t.Errorf("describing it: %v", err)
		}
		if found := w.apis.Discovery().APIs[0]; found.Current != want || len(found.Resources) != 1 {
			t.Errorf("known are %+v", found)
		}
	}
	describe(true)
	before := w.apis.Discovery()
	describe(true)
	w.keep(w.service())
	if w.apis.Discovery() != before {
		t.Error("the documents are others although nothing has changed")
	}
	gone.Store(true)
	describe(false)
	s := w.service()
	s.Spec.GroupPriorityMinimum++
	w.keep(s)
	if found := w.apis.Discovery().APIs[0]; len(found.Resources) != 1 || found.Priority.Group != 101 {
		t.Errorf("after a change of the APIService: %+v", found)
	}
	w.keep()
	if len(w.apis.Discovery().APIs) != 0 || w.apis.Serves(v1Path) {
		t.Error("an APIService that is gone is known")
	}
	if err := w.apis.Describe(t.Context(), name); err == nil {
		t.Error("an APIService that is gone is described")
	}
}

// TestCheck checks when an API counts as available.
func TestCheck(t *testing.T) {
	var asked atomic.Int32
	answer := func(code int, every int32) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1)%every != 0 {
				code := http.StatusBadGateway
				http.Error(w, "no", code)
				return
			}
			if r.URL.Path != v1Path {
				http.NotFound(w, r)
				return
			}
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(metav1.APIResourceList{})
		}
	}
	for test, tc := range map[string]struct {
		serve http.HandlerFunc
		fault string
	}{
		"well":           {answer(200, 1), ""},
		"one of several": {answer(200, attempts), ""},
		"not found":      {answer(404, 1), "bad status from /apis/wardle.example.com/v1: 404"},
		"elsewhere":      {answer(302, 1), "bad status from /apis/wardle.example.com/v1: 302"},
		"silent":         {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "failing or missing response from https://127.0.0.1:"},
	} {
		t.Run(test, func(t *testing.T) {
			asked.Store(0)
			w := newWorld(t, tc.serve)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if err := w.apis.Check(ctx, name); (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("got %v, want %q", err, tc.fault)
			}
		})
	}
	w := newWorld(t, told)
	if err := w.apis.Check(t.Context(), "v1.other"); err == nil {
		t.Error("an APIService that does not exist is available")
	}
}
