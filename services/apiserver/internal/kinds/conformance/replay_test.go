package conformance

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/test/vectors"
)

func TestMain(m *testing.M) {
	uuid.SetRand(Zeros{})
	goleak.VerifyTestMain(m)
}

// TestReplay asks the cases for which Kubernetes' answers were saved by make upstream.
func TestReplay(t *testing.T) {
	table := scheme.New()
	rules := New(table)
	files, err := filepath.Glob("testdata/*.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]int{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl.gz"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			// The clock of a bubble stands still, at the time at which Kubernetes was asked.
			synctest.Test(t, func(t *testing.T) {
				err := vectors.Read(bytes.NewReader(data), func(v Vector) error {
					op, _, _ := strings.Cut(v.Case.Op, "/")
					asked[v.Case.Kind.String()+" "+op]++
					replay(t, rules, v)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			})
		})
	}
	for _, kind := range table.Kinds() {
		for _, op := range []string{OpCreate, OpUpdate, OpPrint} {
			// Kubernetes' own library validates definitions, and its integration tests judge them.
			if !kind.Virtual && kind.Kind != "CustomResourceDefinition" && asked[kind.String()+" "+op] == 0 {
				t.Errorf("there is no vector to %s a %s: run make upstream", op, kind.Kind)
			}
		}
	}
}

func replay(t *testing.T, rules *Rules, v Vector) {
	t.Helper()
	got, err := rules.Answer(v.Case)
	if err != nil {
		t.Fatal(err)
	}
	differences, err := Compare(got, v.Answer)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differences {
		t.Errorf("%s a %s: %s\nobject: %s\nold: %s", v.Case.Op, v.Case.Kind.Kind, d, v.Case.Object, v.Case.Old)
	}
}
