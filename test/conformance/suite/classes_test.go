package suite_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"
	"k8s.io/kubernetes/test/conformance/testdata"
)

// TestClasses compares the specs of all classes with Kubernetes' own list of its conformance specs.
func TestClasses(t *testing.T) {
	data, err := testdata.GetConformanceTestdataFS().ReadTestFile("test/conformance/testdata/conformance.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var listed []struct{ Codename string }
	if err := yaml.Unmarshal(data, &listed); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, spec := range listed {
		// The generator of the list takes a name from Go's source as it is, with escaped quotes.
		want = append(want, strings.ReplaceAll(spec.Codename, `\"`, `"`))
	}
	text, err := os.ReadFile("../classes.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "==") {
			got = append(got, line)
		}
	}
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("no class has %q", name)
		}
	}
	for _, name := range got {
		if !slices.Contains(want, name) {
			t.Errorf("Kubernetes has no conformance spec %q", name)
		}
	}
	if len(got) != len(want) || len(want) == 0 {
		t.Errorf("the classes have %d specs, Kubernetes' list has %d", len(got), len(want))
	}
}
