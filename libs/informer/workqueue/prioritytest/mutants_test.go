package prioritytest

import (
	"os"
	"testing"

	"github.com/garboard/garboard/libs/informer/workqueue/internal/mutants"
)

// childEnv tells a process that TestComparisonFindsMutants starts to count.
const childEnv = "GARBOARD_PRIORITY_TEST_CHILD"

var faults = []mutants.Mutant{
	{
		Name: "lowest first", File: "../internal/levels/levels.go",
		Old: "return a.priority > b.priority",
		New: "return a.priority < b.priority",
	},
	{
		Name: "a raised key keeps its place", File: "../internal/levels/levels.go",
		Old: "			l.pushed++\n			p.number = l.pushed\n			heap.Fix(&l.heap, p.index)\n",
		New: "			heap.Fix(&l.heap, p.index)\n",
	},
	{
		Name: "the last priority counts", File: "../internal/levels/levels.go", More: true,
		Old: "	if priority > before {\n",
		New: "	if priority != before {\n",
	},
	{
		Name: "a key added at once comes again", File: "../priority.go", More: true,
		Old: "	if _, head := q.waiting.Remove(item); head {\n		q.signal()\n	}\n	return true\n",
		New: "	return true\n",
	},
	{
		Name: "a queued key is delayed", File: "../priority.go", More: true,
		Old: "	if q.claim(item, priority, after <= 0) {\n",
		New: "	if q.claim(item, priority, after <= 0) && after <= 0 {\n",
	},
	{
		Name: "the longer delay counts", File: "../priority.go", More: true,
		Old: "after == 0 || limited < after",
		New: "after == 0 || limited > after",
	},
	{
		Name: "a delay forgets the priority", File: "../internal/levels/levels.go", More: true,
		Old: "	p.number = l.pushed\n	heap.Push(&l.heap, p)\n",
		New: "	p.number = l.pushed\n	p.priority = min(p.priority, 0)\n	heap.Push(&l.heap, p)\n",
	},
}

// TestComparisonFindsMutants checks that the scripts that TestPriorityQueueSameAsItsModel runs with
// -short find each of these faults.
func TestComparisonFindsMutants(t *testing.T) {
	if os.Getenv(childEnv) != "" {
		return
	}
	mutants.Find(t, "TestChildCountsDifferences", childEnv+"=count", shortSeeds, faults)
}

// TestChildCountsDifferences is run by TestComparisonFindsMutants in a process of its own.
func TestChildCountsDifferences(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		return
	}
	differ := 0
	for seed := range uint64(shortSeeds) {
		if compare(t, seed) != "" {
			differ++
		}
		mutants.Report(differ, seed+1)
	}
}
