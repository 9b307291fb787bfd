// Package upstream compares the controllers with those of kube-controller-manager.
package upstream

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	_ "k8s.io/kubernetes/pkg/features"
)

// golden is our list: a name a line and, for a controller that does not run, the reason.
const golden = "../../../services/controllers/testdata/names.txt"

// TestNames checks that our list has exactly the controllers of kube-controller-manager, and that the gates
// that it names as reasons are off by default.
func TestNames(t *testing.T) {
	ours := listed(t)
	for name, reason := range ours {
		gate, isGate := strings.CutPrefix(reason, "gate ")
		if !isGate {
			continue
		}
		if spec, known := utilfeature.DefaultFeatureGate.DeepCopy().GetAll()[featuregate.Feature(gate)]; !known || spec.Default {
			t.Errorf("%s is left out for the gate %s, which is known: %v, on by default: %v", name, gate, known, spec.Default)
		}
	}
	theirs := upstream(t)
	for _, name := range theirs {
		if _, is := ours[name]; !is {
			t.Errorf("%s is missing from %s", name, golden)
		}
	}
	for name := range ours {
		if !slices.Contains(theirs, name) {
			t.Errorf("%s is no controller of kube-controller-manager", name)
		}
	}
}

// listed returns our list: the names of all controllers, and why one does not run.
func listed(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, reason, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != "" && !strings.HasPrefix(name, "#") {
			all[name] = strings.TrimSpace(reason)
		}
	}
	return all
}

// upstream returns the constants of Kubernetes' package of names.
func upstream(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatalf("looking for Kubernetes' source: %v", err)
	}
	path := filepath.Join(strings.TrimSpace(string(out)), "cmd/kube-controller-manager/names/controller_names.go")
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is {
			return true
		}
		for _, value := range spec.Values {
			literal, is := value.(*ast.BasicLit)
			if !is {
				t.Fatalf("%v is no literal", spec.Names)
			}
			name, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		return false
	})
	if len(names) < 40 {
		t.Fatalf("Kubernetes names only %d controllers", len(names))
	}
	return names
}
