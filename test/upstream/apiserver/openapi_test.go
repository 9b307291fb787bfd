package upstream

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/openapi"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// dropCBOR removes the media type of an alpha feature, which Kubernetes' golden files have.
func dropCBOR(value any) {
	switch value := value.(type) {
	case map[string]any:
		delete(value, "application/cbor")
		for _, inner := range value {
			dropCBOR(inner)
		}
	case []any:
		for _, inner := range value {
			dropCBOR(inner)
		}
	}
}

// notDescribed are Kubernetes' documents that are missing here, with the reason.
func notDescribed() map[string]string {
	return map[string]string{
		"logs":                           "its handler is off by default, and deprecated",
		"apis/internal.apiserver.k8s.io": "has alpha versions only", "apis/lifecycle.k8s.io": "has alpha versions only",
	}
}

// TestOpenAPIOfDiscovery compares the documents of OpenAPI v3 that are not of a group and version with
// Kubernetes' golden files, and in those of a group and version the list of resources.
func TestOpenAPIOfDiscovery(t *testing.T) {
	table := scheme.New()
	handler := openapi.New(table, "unversioned", func(*scheme.Kind) *kinds.Definition { return nil }, &openapi.Others{})
	folder := filepath.Join(golden(t, "openapi-spec"), "v3")
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, entry := range entries {
		name := strings.ReplaceAll(strings.TrimSuffix(entry.Name(), "_openapi.json"), "__", "/")
		parts := strings.Split(name, "/")
		ofVersion := parts[0] == "api" && len(parts) == 2 || parts[0] == "apis" && len(parts) == 3
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/openapi/v3/"+name, nil))
		reason := notDescribed()[name]
		if w.Code != http.StatusOK {
			if reason == "" && !ofVersion {
				t.Errorf("%s: %d", name, w.Code)
			}
			continue
		}
		if reason != "" {
			t.Errorf("%s is described, although %s", name, reason)
		}
		var ours, theirs map[string]any
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for into, data := range map[*map[string]any][]byte{&ours: w.Body.Bytes(), &theirs: text} {
			if err := json.Unmarshal(data, into); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			dropCBOR(*into)
			if ofVersion {
				paths, _ := (*into)["paths"].(map[string]any)
				*into = map[string]any{"list": paths["/"+name+"/"]}
			}
		}
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Errorf("%s (-Kubernetes +ours):\n%s", name, diff)
		}
		compared++
	}
	if compared < 40 {
		t.Errorf("compared only %d documents", compared)
	}
}
