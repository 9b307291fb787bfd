package upstream

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"k8s.io/kubernetes/pkg/capabilities"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/conformance"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/differences"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/samples"
)

var (
	seeds  = flag.Int("seeds", 1, "number of random walks for each kind")
	first  = flag.Uint64("seed", 1, "seed of the first walk")
	steps  = flag.Int("steps", 300, "number of objects in each walk")
	only   = flag.String("kinds", "", "regular expression for the kinds to ask about; all if empty")
	report = flag.String("report", "", "file that receives all differences, with an example of each")
	accept = flag.Bool("accept", false, "write the list of open differences instead of comparing with it")
	saveTo = flag.String("vectors", "", "folder that receives the test data of the service")
)

// TestMain makes answers repeatable, and allows privileged containers as every cluster's API server
// does. It tolerates Kubernetes' logger, which flushes for as long as the process runs.
func TestMain(m *testing.M) {
	uuid.SetRand(conformance.Zeros{})
	capabilities.Setup(true, 0)
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// group holds the differences in one field of a kind.
type group struct {
	text    string
	count   int
	first   conformance.Difference
	example conformance.Case
}

// comparison collects the differences between us and Kubernetes.
type comparison struct {
	cases int
	// keep says whether to offer cases without a difference to kept.
	keep   bool
	groups map[string]*group
	kept   *Collector
}

func (c *comparison) see(asked conformance.Case, ours, theirs conformance.Answer) error {
	c.cases++
	found, err := conformance.Compare(ours, theirs)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		if !c.keep {
			return nil
		}
		return c.kept.Offer(conformance.Vector{Case: asked, Answer: theirs})
	}
	seen := map[string]bool{}
	for _, d := range found {
		text := name(asked.Kind) + " " + fieldOf(d)
		if seen[text] || differences.Known(name(asked.Kind), fieldOf(d)) {
			continue
		}
		seen[text] = true
		if c.groups[text] == nil {
			c.groups[text] = &group{text: text, example: asked, first: d}
		}
		c.groups[text].count++
	}
	return nil
}

// TestKinds compares every kind with Kubernetes.
func TestKinds(t *testing.T) {
	table := scheme.New()
	set, err := samples.New(table)
	if err != nil {
		t.Fatal(err)
	}
	constants, err := Constants()
	if err != nil {
		t.Fatal(err)
	}
	chosen := regexp.MustCompile(*only)
	oracle, err := New(table)
	if err != nil {
		t.Fatal(err)
	}
	ours := conformance.New(table)
	found := &comparison{groups: map[string]*group{}, kept: NewCollector()}
	for _, kind := range table.Kinds() {
		// Kubernetes' own library validates definitions, and its integration tests judge ours.
		if kind.Virtual || kind.Kind == "CustomResourceDefinition" || !chosen.MatchString(name(kind.GroupVersionKind)) {
			continue
		}
		if !oracle.Knows(kind.GroupVersionKind) {
			t.Errorf("the oracle does not know %s", kind.GroupVersionKind)
			continue
		}
		for seed := range uint64(*seeds) {
			// The clock of a bubble stands still, at the same time in every run.
			var problem error
			found.keep = seed == 0 // Test data does not depend on the number of walks.
			synctest.Test(t, func(*testing.T) {
				e := NewExplorer(oracle, ours, kind, set, constants, *first+seed, found.see)
				if seed == 0 {
					problem = e.Sample()
				}
				problem = errors.Join(problem, e.Walk(*steps))
			})
			if problem != nil {
				t.Errorf("%s: %v", kind.Kind, problem)
			}
		}
	}
	t.Logf("%d cases, %d kinds of differences", found.cases, len(found.groups))
	conclude(t, found)
}

// openFile lists the fields of kinds in which differences are known and not mended yet.
const openFile = "open.txt"

const openIntro = `# Where the apiserver still differs from Kubernetes: the kind, what differs, and the field; "pod:" stands
# for the path of the pod template. A difference in a field that is not listed fails make upstream. Each
# line is to be mended and removed. go test . -seeds 4 -accept writes the list anew.`

// conclude fails for each difference that is not open, and writes the files that were asked for.
func conclude(t *testing.T, found *comparison) {
	t.Helper()
	data, err := os.ReadFile(openFile)
	if err != nil {
		t.Fatal(err)
	}
	open := strings.Split(string(data), "\n")
	lines := []string{openIntro}
	var all []*group
	for _, g := range found.groups {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *group) int { return strings.Compare(a.text, b.text) })
	var page strings.Builder
	for _, g := range all {
		fmt.Fprintf(&page, "%d\t%s\n\t\tgot %q, want %q\n\t\t%s %s\n", g.count, g.text, g.first.Ours, g.first.Theirs, g.example.Op, g.example.Object)
		if len(g.example.Old) > 0 {
			fmt.Fprintf(&page, "\t\tinstead of %s\n", g.example.Old)
		}
		lines = append(lines, g.text)
		if !*accept && !slices.Contains(open, g.text) {
			t.Errorf("%d × %s: got %q, want %q", g.count, g.text, g.first.Ours, g.first.Theirs)
		}
	}
	if *accept {
		if err := os.WriteFile(openFile, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Error(err)
		}
	}
	if *report != "" {
		if err := os.WriteFile(*report, []byte(page.String()), 0o600); err != nil {
			t.Error(err)
		}
	}
	if *saveTo != "" {
		if err := found.kept.Write(*saveTo); err != nil {
			t.Error(err)
		}
	}
}
