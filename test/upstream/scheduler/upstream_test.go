package upstream

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/garboard/garboard/services/scheduler/internal/conformance"
)

var (
	seeds  = flag.Int("seeds", 1, "number of series of random cases")
	first  = flag.Uint64("seed", 1, "seed of the first series")
	cases  = flag.Int("cases", 2500, "number of cases in each series")
	report = flag.String("report", "", "file that receives all differences, with an example of each")
	saveTo = flag.String("vectors", "", "folder that receives the test data of the service")
)

// podRequests returns what a pod on a node requests.
func podRequests(p *corev1.Pod) corev1.ResourceList {
	return resource.PodRequests(p, resource.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true})
}

// group holds the differences about one thing.
type group struct {
	about   string
	count   int
	first   conformance.Difference
	example *conformance.Case
}

// comparison collects the differences between us and Kubernetes.
type comparison struct {
	oracle *Oracle
	groups map[string]*group
	kept   *Collector
	cases  int
	// seen counts the nodes that each filter refused, and those that each plugin scored.
	seen map[string]int
}

// TestCases compares the scheduler's judgement with Kubernetes'.
func TestCases(t *testing.T) {
	metrics.Register()
	oracle, err := NewOracle()
	if err != nil {
		t.Fatal(err)
	}
	found := &comparison{oracle: oracle, groups: map[string]*group{}, kept: NewCollector(), seen: map[string]int{}}
	for _, c := range Boundaries() {
		if theirs, same := found.ask(t, c); same {
			found.kept.Always = append(found.kept.Always, conformance.Vector{Case: *c, Answer: theirs})
		}
	}
	for seed := range uint64(*seeds) {
		m := NewMaker(*first + seed)
		for range *cases {
			c := m.Case()
			theirs, same := found.ask(t, c)
			if same && seed == 0 { // Test data does not depend on the number of series.
				found.kept.Offer(conformance.Vector{Case: *c, Answer: theirs})
			}
		}
	}
	t.Logf("%d cases, %d kinds of differences, %d test vectors; nodes refused or scored by plugin: %v",
		found.cases, len(found.groups), len(found.kept.Vectors()), found.seen)
	conclude(t, found.groups, found.kept)
}

// ask asks both about a case. It returns Kubernetes' answer, and whether ours is the same.
func (f *comparison) ask(t *testing.T, c *conformance.Case) (theirs conformance.Answer, same bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		if theirs, err = f.oracle.Answer(t.Context(), c, synctest.Wait); err != nil {
			t.Fatalf("%v\n%s", err, text(t, c))
		}
	})
	f.cases++
	for _, verdict := range theirs.Nodes {
		f.seen[verdict.Filter]++
		for plugin := range verdict.Scores {
			f.seen["score "+plugin]++
		}
	}
	differences := conformance.Compare(conformance.Ours(c), theirs)
	for _, d := range differences {
		about := d.About
		if d.About != "total" {
			about += " " + plain(fmt.Sprint(d.Theirs)) + " / " + plain(fmt.Sprint(d.Ours))
		}
		if f.groups[about] == nil {
			f.groups[about] = &group{about: about, first: d, example: c}
		}
		f.groups[about].count++
	}
	return theirs, len(differences) == 0
}

// conclude fails for each difference, and writes the files that were asked for.
func conclude(t *testing.T, groups map[string]*group, kept *Collector) {
	t.Helper()
	var lines []string
	for _, g := range groups {
		t.Errorf("%d × %s", g.count, g.first)
		lines = append(lines, fmt.Sprintf("%s (%d times)\n\t%s\n\t%s\n", g.about, g.count, g.first, text(t, g.example)))
	}
	slices.Sort(lines)
	if *report != "" {
		if err := os.WriteFile(*report, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Error(err)
		}
	}
	if *saveTo != "" {
		if err := kept.Write(filepath.Join(*saveTo, "cases.jsonl.gz")); err != nil {
			t.Error(err)
		}
	}
}

func text(t *testing.T, c *conformance.Case) string {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
