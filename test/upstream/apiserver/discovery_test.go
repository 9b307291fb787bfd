package upstream

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/discovery"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
)

// golden returns a folder of Kubernetes' golden files.
func golden(t *testing.T, folder string) string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatalf("finding Kubernetes' files: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), "api", folder)
}

// resourceTexts maps a resource, with its group and version, to what discovery says of it.
type resourceTexts map[string]string

func (r resourceTexts) add(list metav1.APIResourceList) {
	gv, _ := schema.ParseGroupVersion(list.GroupVersion)
	for _, resource := range list.APIResources {
		kind := resource.Kind
		if resource.Group != "" || resource.Version != "" {
			if of := (schema.GroupVersion{Group: resource.Group, Version: resource.Version}); of != gv {
				kind = of.String() + "." + kind
			}
		}
		verbs := slices.Sorted(slices.Values(resource.Verbs))
		r[list.GroupVersion+" "+resource.Name] = fmt.Sprintf("kind %s singular %q namespaced %t verbs %v short %v categories %v hash %q",
			kind, resource.SingularName, resource.Namespaced, verbs, resource.ShortNames, resource.Categories, resource.StorageVersionHash)
	}
}

// Why discovery differs from Kubernetes.
const (
	alpha = "its feature, CSIVolumeHealth, is alpha and off; Kubernetes' golden files have all features on"
	extra = "Kubernetes leaves it to metrics-server"
)

// differing are the resources of which discovery says something else than Kubernetes, with the reason.
func differing() map[string]string {
	return map[string]string{
		"storage.k8s.io/v1 csinodes/status": alpha,
		"metrics.k8s.io/v1beta1 nodes":      extra, "metrics.k8s.io/v1beta1 pods": extra,
	}
}

// theirResources reads the golden files of the generally available versions.
func theirResources(t *testing.T) resourceTexts {
	t.Helper()
	theirs := resourceTexts{}
	files, err := filepath.Glob(filepath.Join(golden(t, "discovery"), "api*__v*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var list metav1.APIResourceList
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(gv.Version, "alpha") || strings.Contains(gv.Version, "beta") {
			continue
		}
		theirs.add(list)
	}
	if len(theirs) < 100 {
		t.Fatalf("Kubernetes' golden files have only %d resources", len(theirs))
	}
	return theirs
}

func ourResources(t *testing.T) resourceTexts {
	t.Helper()
	ours, table := resourceTexts{}, scheme.New()
	handler := discovery.New(discovery.Config{Table: table, Encoder: response.New(table, slog.New(slog.DiscardHandler))})
	seen := map[string]bool{}
	for _, kind := range table.Kinds() {
		path := "/apis/" + kind.GroupVersion().String()
		if kind.Group == "" {
			path = "/api/" + kind.Version
		}
		if seen[path] {
			continue
		}
		seen[path] = true
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		var list metav1.APIResourceList
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		ours.add(list)
	}
	return ours
}

// TestDiscovery compares each resource of the generally available versions with Kubernetes' golden files:
// kind, names, scope, verbs, categories, and the hash of the stored version.
func TestDiscovery(t *testing.T) {
	theirs, ours := theirResources(t), ourResources(t)
	names, reasons := maps.Clone(ours), differing()
	maps.Copy(names, theirs)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if (ours[name] == theirs[name]) != (reasons[name] == "") {
			t.Errorf("%s: it differs: %t; its reason to differ is %q", name, ours[name] != theirs[name], reasons[name])
		}
		if ours[name] == theirs[name] || reasons[name] != "" {
			continue
		}
		t.Errorf("%s:\n ours   %s\n theirs %s", name, ours[name], theirs[name])
	}
}
