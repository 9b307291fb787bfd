package customresources

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

var (
	only   = flag.String("only", "", "run only the tests that match, as go test's -run; missing ones are no error then")
	report = flag.String("report", "", "file for the whole output of the tests")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// packages are Kubernetes' tests.
var packages = []string{module + "/test/integration", module + "/test/integration/conversion"}

// TestIntegration runs Kubernetes' tests, and compares those that fail with the known ones.
func TestIntegration(t *testing.T) {
	known, err := readKnown("known.txt")
	if err != nil {
		t.Fatal(err)
	}
	modfile, err := workspace(t)
	if err != nil {
		t.Fatal(err)
	}
	expected := list(t, modfile)
	results := run(t, modfile, etcdtest.New(t)[0])
	t.Log(results)
	for _, problem := range judge(results, known, expected, *only != "") {
		t.Error(problem)
	}
}

// list returns the names of all tests.
func list(t *testing.T, modfile string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"test", "-modfile", modfile, "-vet=off", "-list", "^Test"}, packages...)...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("listing the tests: %v", err)
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		if name := strings.TrimSpace(line); strings.HasPrefix(name, "Test") {
			names = append(names, name)
		}
	}
	return names
}

// run runs the tests. A test that fails is no error of run.
func run(t *testing.T, modfile, etcd string) *results {
	t.Helper()
	args := append([]string{"test", "-modfile", modfile, "-vet=off", "-count=1", "-p=1", "-timeout=1h", "-json", "-run", *only}, packages...)
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "KUBE_INTEGRATION_ETCD_URL="+etcd)
	cmd.Stderr = t.Output()
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log := io.Discard
	if *report != "" {
		file, err := os.Create(*report)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		log = file
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("running the tests: %v", err)
	}
	found, failed := readResults(output, log)
	var exit *exec.ExitError
	if err := cmd.Wait(); failed != nil || err != nil && !errors.As(err, &exit) {
		t.Fatalf("running the tests: %v", errors.Join(failed, err))
	}
	return found
}

// readResults reads what go test -json prints, and writes what the tests print to log.
func readResults(from io.Reader, log io.Writer) (*results, error) {
	found := &results{outcome: map[string]string{}}
	decoder := json.NewDecoder(bufio.NewReader(from))
	for {
		var event struct{ Action, Package, Test, Output, FailedBuild string }
		if err := decoder.Decode(&event); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading go test's events: %w", err)
		}
		switch event.Action {
		case "output", "build-output":
			if _, err := io.WriteString(log, event.Output); err != nil {
				return nil, err
			}
		case "pass", "fail", "skip":
			if event.Test != "" {
				found.outcome[event.Test] = event.Action
			}
			if event.FailedBuild != "" {
				return nil, fmt.Errorf("building %s failed; -report FILE saves the errors", event.Package)
			}
		}
	}
}

// workspace copies Kubernetes' module with our fixtures in it, since the go tool replaces no file of its module
// cache. It returns a go.mod that selects the copy. The place is always the same, so that the build cache helps.
func workspace(t *testing.T) (modfile string, err error) {
	t.Helper()
	source, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("looking for %s: %w", module, err)
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		return "", err
	}
	place := filepath.Join(root, "bin", ".upstream") // Rules of the source tree do not apply below such a name.
	copied := filepath.Join(place, "apiextensions-apiserver")
	if err := os.RemoveAll(copied); err != nil {
		return "", err
	}
	if err := os.CopyFS(copied, os.DirFS(strings.TrimSpace(string(source)))); err != nil {
		return "", fmt.Errorf("copying %s: %w", module, err)
	}
	ours, err := filepath.Glob("fixtures/*.go")
	if err != nil {
		return "", err
	}
	for _, name := range ours {
		if err := copyFile(name, filepath.Join(copied, "test/integration", name)); err != nil {
			return "", err
		}
	}
	requirements, err := os.ReadFile("go.mod")
	if err != nil {
		return "", err
	}
	text := strings.Replace(string(requirements), "=> ../../..", "=> "+root, 1) + "\nreplace " + module + " => " + copied + "\n"
	modfile = filepath.Join(place, "customresources.mod")
	if err := os.WriteFile(modfile, []byte(text), 0o600); err != nil {
		return "", err
	}
	return modfile, copyFile("go.sum", filepath.Join(place, "customresources.sum"))
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}
