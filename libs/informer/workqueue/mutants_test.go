package workqueue_test

import (
	"os"
	"testing"

	"github.com/garboard/garboard/libs/informer/workqueue/internal/mutants"
)

var faults = []mutants.Mutant{
	{
		Name: "no dirty mark", File: "queue.go",
		Old: "q.marks[item] = dirty | processing",
		New: "q.marks[item] = processing",
	},
	{
		Name: "last in, first out", File: "../internal/ring/ring.go",
		Old: "	slot := r.At(r.head)\n	element := *slot\n	*slot = zero\n	r.head++\n",
		New: "	r.tail--\n	slot := r.At(r.tail)\n	element := *slot\n	*slot = zero\n",
	},
	{
		Name: "a drain that does not wait", File: "queue.go",
		Old: "for q.held != 0 && q.drain {",
		New: "for false {",
	},
	{
		Name: "a later AddAfter wins", File: "internal/schedule/schedule.go",
		Old: "r == KeepEarlier && at >= known.at",
		New: "r == KeepEarlier && at <= known.at",
	},
	{
		Name: "a key handed out twice", File: "queue.go",
		Old: "		q.marks[item] = dirty | processing\n",
		New: "		q.marks[item] = dirty | processing\n		q.queue.Push(item)\n		q.work.Signal()\n",
	},
	{
		Name: "a dirty key is forgotten by Done", File: "queue.go", More: true,
		Old: "	if m&dirty != 0 {\n		q.marks[item] = dirty\n		q.queue.Push(item)",
		New: "	if m&dirty != 0 {\n		delete(q.marks, item)",
	},
	{
		Name: "Add after a shutdown", File: "queue.go", More: true,
		Old: "	if q.shuttingDown {\n		return\n	}\n	q.add(item)",
		New: "	q.add(item)",
	},
	{
		Name: "Touch of a held key", File: "queue.go", More: true,
		Old: "		// Done will queue it.\n",
		New: "		q.queue.Touch(item)\n",
	},
	{
		Name: "a delayed key is late", File: "internal/schedule/schedule.go", More: true,
		Old: "		at += delay\n",
		New: "		at += delay + 2*time.Microsecond\n",
	},
	{
		Name: "latency since the last add", File: "queue.go", More: true,
		Old: "		q.queue.Touch(item)\n",
		New: "		q.queue.Touch(item)\n		if q.metrics != nil {\n			q.metrics.added[item] = q.clock.Now()\n		}\n",
	},
	{
		Name: "retries not counted for no delay", File: "delaying.go", More: true,
		Old: "	if q.retries != nil {",
		New: "	if q.retries != nil && duration > 0 {",
	},
	{
		Name: "Forget of the wrong limiter", File: "limiters.go", More: true,
		Old: "	for _, limiter := range r.limiters {\n		limiter.Forget(item)",
		New: "	for _, limiter := range r.limiters[1:] {\n		limiter.Forget(item)",
	},
	{
		Name: "Get of a held key is not counted", File: "metrics.go", More: true,
		Old: "	m.started[item] = now\n",
		New: "	if len(m.started) == 0 {\n		m.started[item] = now\n	}\n",
	},
}

// TestComparisonFindsMutants: the comparison with client-go is worth something only if it finds
// faults. Each mutant is built from the source of this package. Several of the scripts that
// TestSameAsClientGo runs with -short must find it, so that it was not luck. The scripts are the
// same each time, so a mutant that was found once is always found.
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
		if compare(t, seed, ours()) != "" {
			differ++
		}
		// Called after each script, since a mutant may make a later one hang.
		mutants.Report(differ, seed+1)
	}
}
