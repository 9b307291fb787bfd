// Package chart_test tests the Helm chart: its renderings and the values it refuses. It also checks
// that an apiserver accepts all its objects, and that Helm installs, upgrades, rolls back and
// uninstalls it.
package chart_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const chartDir = "../../helm/garboard"

var update = flag.Bool("update", false, "rewrite the renderings in testdata/golden")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// valueSets returns the names of the files in testdata/values.
func valueSets(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil || len(files) != 6 {
		t.Fatalf("got %d sets of values, %v", len(files), err)
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), ".yaml")
	}
	return files
}

func values(t *testing.T, set string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata/values", set+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]any{}
	if err := yaml.Unmarshal(data, &given); err != nil {
		t.Fatal(err)
	}
	return given
}

// decode parses YAML without duplicate keys.
func decode(t *testing.T, data []byte) map[string]any {
	t.Helper()
	given := map[string]any{}
	if err := yaml.UnmarshalStrict(data, &given); err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	return given
}

// load loads the chart. Each use needs its own, since Helm modifies it.
func load(t *testing.T) *chart.Chart {
	t.Helper()
	loaded, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// render acts like `helm template`, with hooks and tests.
func render(t *testing.T, given map[string]any) (*release.Release, error) {
	t.Helper()
	install := action.NewInstall(&action.Configuration{Log: t.Logf})
	install.ReleaseName, install.Namespace = "demo", "planes"
	install.DryRun, install.ClientOnly, install.Replace = true, true, true
	install.KubeVersion = &chartutil.KubeVersion{Version: "v1.37.2", Major: "1", Minor: "37"}
	return install.RunWithContext(t.Context(), load(t), given)
}

// rendered returns all objects rendered from a set of values, hooks first.
func rendered(t *testing.T, set string) []*unstructured.Unstructured {
	t.Helper()
	made, err := render(t, values(t, set))
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, hook := range made.Hooks {
		objects = append(objects, objectsOf(t, hook.Manifest)...)
	}
	return append(objects, objectsOf(t, made.Manifest)...)
}

func objectsOf(t *testing.T, manifest string) []*unstructured.Unstructured {
	t.Helper()
	split := releaseutil.SplitManifests(manifest)
	var objects []*unstructured.Unstructured
	for i := range len(split) {
		object := &unstructured.Unstructured{Object: decode(t, []byte(split["manifest-"+strconv.Itoa(i)]))}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
	return objects
}

// TestLint acts like `helm lint --strict`.
func TestLint(t *testing.T) {
	for _, set := range valueSets(t) {
		t.Run(set, func(t *testing.T) {
			lint := action.NewLint()
			lint.Strict, lint.Namespace = true, "planes"
			result := lint.Run([]string{chartDir}, values(t, set))
			for _, message := range result.Messages {
				// The chart has no icon because the project has none.
				if !strings.Contains(message.Err.Error(), "icon is recommended") {
					t.Error(message)
				}
			}
			if result.TotalChartsLinted != 1 || len(result.Errors) > 0 {
				t.Errorf("%d charts, %v", result.TotalChartsLinted, result.Errors)
			}
		})
	}
}

// TestGolden compares the renderings with the reviewed ones. -update rewrites them.
func TestGolden(t *testing.T) {
	for _, set := range valueSets(t) {
		t.Run(set, func(t *testing.T) {
			made, err := render(t, values(t, set))
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			slices.SortFunc(made.Hooks, func(a, b *release.Hook) int { return strings.Compare(a.Path+a.Kind, b.Path+b.Kind) })
			for _, hook := range made.Hooks {
				out.WriteString("---\n# Source: " + hook.Path + "\n" + strings.TrimSpace(hook.Manifest) + "\n")
			}
			out.WriteString(strings.TrimSpace(made.Manifest) + "\n---\n# Notes\n")
			for line := range strings.Lines(made.Info.Notes) {
				out.WriteString(strings.TrimRight("# "+line, " \n") + "\n")
			}
			path := filepath.Join("testdata/golden", set+".yaml")
			if *update {
				if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, out.Bytes()) {
				t.Errorf("the rendering differs from %s; review what `go test ./test/chart -update` changes there%s", path, firstDifference(string(want), out.String()))
			}
		})
	}
}

func firstDifference(want, got string) string {
	wanted, gotten := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(wanted), len(gotten)) {
		if wanted[i] != gotten[i] {
			return "\nline " + strconv.Itoa(i+1) + "\n-" + wanted[i] + "\n+" + gotten[i]
		}
	}
	return "\none is longer"
}
