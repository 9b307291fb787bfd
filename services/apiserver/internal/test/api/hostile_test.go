package api_test

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

var jsonBody = map[string]string{"Content-Type": "application/json"}

// TestHostileCustomResources has somebody who may write custom resources write what no honest client would:
// each request has its answer, and the apiserver goes on.
func TestHostileCustomResources(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	admin := s.Admin()
	if res, body := s.Exchange(admin, http.MethodPost, definitions, fmt.Sprintf(eggs, eggFields+`,"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true}`), jsonBody); res.StatusCode != http.StatusCreated {
		t.Fatalf("creating the definition: %d %s", res.StatusCode, body)
	}
	served(t, s, admin, "free")
	const deepest = "the deepest nesting"
	egg := func(rest string) string {
		return `{"apiVersion":"example.com/v1","kind":"Egg","metadata":{"name":"e"}` + rest + "}"
	}
	deep := func(depth int) string {
		return egg(`,"spec":{"free":` + strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth) + "}")
	}
	for _, c := range []struct {
		name, query, body string
		code              int
		says              string
	}{
		{"deep nesting", "", deep(1000), http.StatusCreated, ""},
		{deepest, "", deep(9000), http.StatusCreated, ""},
		{"deeper nesting", "", deep(200_000), http.StatusBadRequest, "max depth"},
		{"a number without end", "", egg(`,"spec":{"free":{"a":1e400}}`), http.StatusBadRequest, "cannot unmarshal"},
		{"a large integer", "", egg(`,"spec":{"replicas":99999999999999999999}`), http.StatusUnprocessableEntity, "spec.replicas"},
		{"a negative zero", "", egg(`,"spec":{"replicas":-0}`), http.StatusCreated, `"replicas":0`},
		{"a fraction", "", egg(`,"spec":{"replicas":1.5}`), http.StatusUnprocessableEntity, "spec.replicas"},
		{"a duplicate field", "?fieldValidation=Strict", egg(`,"spec":{"color":"a","color":"b"}`), http.StatusBadRequest, `duplicate field \"spec.color\"`},
		{"NUL in a text", "", egg(`,"spec":{"color":"\u0000"}`), http.StatusCreated, ""},
		{"half a character", "", egg(`,"spec":{"color":"\ud800"}`), http.StatusCreated, ""},
		{"bytes that are no UTF-8", "", egg(",\"spec\":{\"color\":\"\xff\"}"), http.StatusCreated, ""},
		{"a list for metadata", "", `{"apiVersion":"example.com/v1","kind":"Egg","metadata":[]}`, http.StatusBadRequest, ""},
		{"a long name", "", strings.Replace(egg(""), `"e"`, `"`+strings.Repeat("e", 300)+`"`, 1), http.StatusUnprocessableEntity, "metadata.name"},
		{"a hostile owner", "", strings.Replace(egg(""), `"e"`, `"e","managedFields":[{"manager":"m","operation":"Update","apiVersion":"example.com/v9","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"k:{}":{},"v:[":{},"i:-1":{}}}}]`, 1),
			http.StatusCreated, ""},
		{"the owner of a type", "", strings.Replace(egg(""), `"e"`, `"e","managedFields":7`, 1), http.StatusBadRequest, ""},
		{"no object", "", "[]", http.StatusBadRequest, ""},
		{"nothing", "", "", http.StatusBadRequest, ""},
		{"a large object", "", egg(`,"spec":{"color":"` + strings.Repeat("a", 4<<20) + `"}`), http.StatusRequestEntityTooLarge, ""},
		{"an object too large for etcd", "", egg(`,"spec":{"color":"` + strings.Repeat("a", 1600<<10) + `"}`), http.StatusInternalServerError, "etcdserver: request is too large: the object does not fit"},
		{"an object too large for etcd's client", "", egg(`,"spec":{"color":"` + strings.Repeat("a", 2<<20) + `"}`), http.StatusInternalServerError,
			`"message":"rpc error: code = ResourceExhausted desc = trying to send message larger than max`},
	} {
		res, body := s.Exchange(admin, http.MethodPost, eggPaths+c.query, c.body, jsonBody)
		if res.StatusCode != c.code || !strings.Contains(body, c.says) {
			t.Errorf("%s: got %d %.300s, want %d %s", c.name, res.StatusCode, body, c.code, c.says)
		}
		if res.StatusCode == http.StatusCreated {
			for _, accept := range []string{"", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/yaml"} {
				if c.name == deepest && accept == "application/yaml" {
					continue // Its indentation makes 81 MB, which takes the race detector minutes.
				}
				if res, body := s.Exchange(admin, http.MethodGet, eggPaths, "", map[string]string{"Accept": accept}); res.StatusCode != http.StatusOK {
					t.Errorf("%s: reading as %q: %d %.300s", c.name, accept, res.StatusCode, body)
				}
			}
		}
		s.Exchange(admin, http.MethodDelete, eggPaths+"/e", "", nil)
	}
	if res, body := s.Exchange(admin, http.MethodGet, "/readyz", "", nil); res.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %d %s", res.StatusCode, body)
	}
}

// round makes the kind of a plural, writes one object of it, follows them, and deletes the definition.
func round(t *testing.T, s *harness.Server, admin *rest.Config, scope, plural string) {
	t.Helper()
	at := "/apis/example.com/v1/" + plural
	if scope == "Namespaced" {
		at = "/apis/example.com/v1/namespaces/default/" + plural
	}
	text := strings.NewReplacer(`"Namespaced"`, `"`+scope+`"`, "eggs", plural, `"singular":"egg"`, `"singular":"`+plural+`"`).Replace(fmt.Sprintf(eggs, eggFields))
	if res, body := s.Exchange(admin, http.MethodPost, definitions, text, jsonBody); res.StatusCode != http.StatusCreated {
		t.Fatalf("creating the definition: %d %s", res.StatusCode, body)
	}
	harness.Await(t, "the kind", func() error {
		res, body := s.Exchange(admin, http.MethodPost, at, `{"apiVersion":"example.com/v1","kind":"Egg","metadata":{"generateName":"e"}}`, jsonBody)
		if res.StatusCode != http.StatusCreated {
			return fmt.Errorf("creating an egg: %d %s", res.StatusCode, body)
		}
		return nil
	})
	list := &unstructured.UnstructuredList{}
	_, body := s.Exchange(admin, http.MethodGet, at, "", nil)
	if err := list.UnmarshalJSON([]byte(body)); err != nil || len(list.Items) != 1 {
		t.Fatalf("a new kind has the objects %v of an old one: %v", list.Items, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Exchange(admin, http.MethodGet, at+"?watch=1&resourceVersion="+list.GetResourceVersion(), "", nil)
	}()
	if res, body := s.Exchange(admin, http.MethodDelete, definitions+"/"+plural+".example.com", "", nil); res.StatusCode != http.StatusOK {
		t.Fatalf("deleting the definition: %d %s", res.StatusCode, body)
	}
	harness.Eventually(t, "the definition is gone", func() bool {
		res, _ := s.Exchange(admin, http.MethodGet, definitions+"/"+plural+".example.com", "", nil)
		return res.StatusCode == http.StatusNotFound
	})
	select {
	case <-ended:
	case <-time.After(harness.Patience):
		t.Fatal("the watch of a kind that is gone does not end")
	}
}

// TestDefinitionsComeAndGo makes a kind of one scope and again of the other, under many names: each is without
// the objects of those before, and nothing of them stays.
func TestDefinitionsComeAndGo(t *testing.T) {
	s := harness.Start(t)
	admin := s.Admin()
	rounds := func(from, to int) {
		for i := range to - from {
			for _, scope := range []string{"Namespaced", "Cluster"} {
				round(t, s, admin, scope, fmt.Sprintf("eggs%dx", from+i))
			}
		}
	}
	rounds(0, 1)
	goroutines := runtime.NumGoroutine()
	rounds(1, 5)
	harness.Await(t, "the end of what serves the kinds", func() error {
		if now := runtime.NumGoroutine(); now > goroutines+5 {
			return fmt.Errorf("%d goroutines became %d", goroutines, now)
		}
		return nil
	})
	harness.Await(t, "metrics without the kinds", func() error {
		_, body := s.Exchange(admin, http.MethodGet, "/metrics", "", nil)
		var left []string
		for line := range strings.Lines(body) {
			if name, _, _ := strings.Cut(line, "{"); strings.Contains(line, `="eggs`) && !slices.Contains(left, name) {
				left = append(left, name)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("there are series of a kind that is gone: %q", left)
		}
		return nil
	})
}
