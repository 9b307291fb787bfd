package conformance

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/test/vectors"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestReplay runs the pods for which the kubelet's calls were saved by make upstream.
func TestReplay(t *testing.T) {
	data, err := os.ReadFile("testdata/pods.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	var saved []Vector
	if err := vectors.Read(bytes.NewReader(data), func(v Vector) error {
		saved = append(saved, v)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(saved) < 200 {
		t.Fatalf("there are only %d vectors: run make upstream", len(saved))
	}
	m := NewMachine(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	agent, err := NewAgent(ctx, m, saved[0].Case.HugePageSizes)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := agent.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, v := range saved {
		pod, err := v.Case.Decode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Run(ctx, m, agent, pod)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range Compare(pod, got, v.Answer) {
			t.Errorf("%s\npod: %s", d, v.Case.Pod)
		}
	}
}

// TestDifferencesAreListed keeps the page and the list together: each difference is on the page, with
// its reason and a test that exists.
func TestDifferencesAreListed(t *testing.T) {
	const root = "../../../../.."
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/nodeagent.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range Differences() {
		for _, text := range []string{d.Path, d.Why, d.Test} {
			if !strings.Contains(string(page), text) {
				t.Errorf("docs/reference/nodeagent.md does not say %q", text)
			}
		}
		dir, test, _ := strings.Cut(d.Test, " ")
		files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		declared := regexp.MustCompile(`(?m)^func ` + test + `\(`)
		found := false
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || declared.Match(source)
		}
		if !found {
			t.Errorf("there is no %s", d.Test)
		}
	}
}
