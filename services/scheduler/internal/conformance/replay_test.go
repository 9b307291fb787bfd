package conformance

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/scheduler/internal/placement"
	"github.com/garboard/garboard/test/vectors"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// vectorsFile holds the cases for which Kubernetes' answers were saved by make upstream.
const vectorsFile = "testdata/cases.jsonl.gz"

// TestReplay asks the saved cases, and checks that they ask about each filter and each score.
func TestReplay(t *testing.T) {
	data, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	err = vectors.Read(bytes.NewReader(data), func(v Vector) error {
		differences := Compare(Ours(&v.Case), v.Answer)
		if len(differences) > 0 {
			text, err := json.Marshal(v.Case)
			if err != nil {
				t.Fatal(err)
			}
			t.Errorf("%v in\n%s", differences, text)
		}
		for _, verdict := range v.Answer.Nodes {
			seen[verdict.Filter]++
			for plugin := range verdict.Scores {
				seen["score "+plugin]++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, filter := range []placement.Filter{
		placement.NodeName, placement.NodeUnschedulable, placement.TaintToleration, placement.NodeAffinity, placement.NodePorts, placement.NodeResourcesFit,
		placement.VolumeRestrictions, placement.VolumeBinding, placement.VolumeZone, placement.PodTopologySpread, placement.InterPodAffinity,
		"score TaintToleration", "score NodeAffinity", "score NodeResourcesFit", "score PodTopologySpread", "score InterPodAffinity",
		"score NodeResourcesBalancedAllocation",
	} {
		if seen[string(filter)] < 3 {
			t.Errorf("only %d verdicts are about %s: run make upstream", seen[string(filter)], filter)
		}
	}
}

// TestCompare checks that each part of an answer is compared.
func TestCompare(t *testing.T) {
	base := func() Answer {
		return Answer{Message: "m", Nodes: map[string]Verdict{"n": {Filter: "f", Reasons: []string{"r"}, Final: true, Scores: map[string]int64{"s": 1}, Total: 2}}}
	}
	with := func(change func(*Verdict)) Answer {
		a := base()
		v := a.Nodes["n"]
		change(&v)
		a.Nodes["n"] = v
		return a
	}
	if found := Compare(base(), base()); len(found) > 0 {
		t.Errorf("equal answers differ: %v", found)
	}
	for about, other := range map[string]Answer{
		" message: ours m, Kubernetes ":        {Nodes: base().Nodes},
		"n filter: ours f, Kubernetes g":       with(func(v *Verdict) { v.Filter = "g" }),
		"n reasons: ours r, Kubernetes r, q":   with(func(v *Verdict) { v.Reasons = []string{"r", "q"} }),
		"n final: ours true, Kubernetes false": with(func(v *Verdict) { v.Final = false }),
		"n score s: ours 1, Kubernetes 0":      with(func(v *Verdict) { v.Scores = nil }),
		"n total: ours 2, Kubernetes 3":        with(func(v *Verdict) { v.Total = 3 }),
	} {
		if found := Compare(base(), other); len(found) != 1 || found[0].String() != about {
			t.Errorf("got %v, want %s", found, about)
		}
	}
	missing := base()
	missing.Nodes["other"] = Verdict{Filter: "f"}
	if found := Compare(base(), missing); len(found) != 1 {
		t.Errorf("a missing node: got %v", found)
	}
}
