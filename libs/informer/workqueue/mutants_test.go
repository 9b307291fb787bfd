package workqueue_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutant is a fault in the source of this package.
type mutant struct {
	name string
	// In file, old becomes new.
	file, old, new string
	// more says that it is run only without -short.
	more bool
	// priorities says that it is for TestPriorityQueueSameAsItsModel to find.
	priorities bool
}

var mutants = []mutant{
	{
		name: "no dirty mark", file: "queue.go",
		old: "q.marks[item] = dirty | processing",
		new: "q.marks[item] = processing",
	},
	{
		name: "last in, first out", file: "ring.go",
		old: "	item := r.items[r.head]\n	r.items[r.head] = none // The buffer must not keep it alive.\n	r.head = (r.head + 1) & (len(r.items) - 1)\n",
		new: "	last := (r.head + r.count - 1) & (len(r.items) - 1)\n	item := r.items[last]\n	r.items[last] = none\n",
	},
	{
		name: "a drain that does not wait", file: "queue.go",
		old: "for q.held != 0 && q.drain {",
		new: "for false {",
	},
	{
		name: "a later AddAfter wins", file: "schedule.go",
		old: "r == keepEarlier && at >= known.at",
		new: "r == keepEarlier && at <= known.at",
	},
	{
		name: "a key handed out twice", file: "queue.go",
		old: "		q.marks[item] = dirty | processing\n",
		new: "		q.marks[item] = dirty | processing\n		q.queue.Push(item)\n		q.work.Signal()\n",
	},
	{
		name: "a dirty key is forgotten by Done", file: "queue.go", more: true,
		old: "	if m&dirty != 0 {\n		q.marks[item] = dirty\n		q.queue.Push(item)",
		new: "	if m&dirty != 0 {\n		delete(q.marks, item)",
	},
	{
		name: "Add after a shutdown", file: "queue.go", more: true,
		old: "	if q.shuttingDown {\n		return\n	}\n	q.add(item)",
		new: "	q.add(item)",
	},
	{
		name: "Touch of a held key", file: "queue.go", more: true,
		old: "		// Done will queue it.\n",
		new: "		q.queue.Touch(item)\n",
	},
	{
		name: "a delayed key is late", file: "schedule.go", more: true,
		old: "		at += delay\n",
		new: "		at += delay + 2*time.Microsecond\n",
	},
	{
		name: "latency since the last add", file: "queue.go", more: true,
		old: "		q.queue.Touch(item)\n",
		new: "		q.queue.Touch(item)\n		if q.metrics != nil {\n			q.metrics.added[item] = q.clock.Now()\n		}\n",
	},
	{
		name: "retries not counted for no delay", file: "delaying.go", more: true,
		old: "	if q.retries != nil {",
		new: "	if q.retries != nil && duration > 0 {",
	},
	{
		name: "Forget of the wrong limiter", file: "limiters.go", more: true,
		old: "	for _, limiter := range r.limiters {\n		limiter.Forget(item)",
		new: "	for _, limiter := range r.limiters[1:] {\n		limiter.Forget(item)",
	},
	{
		name: "Get of a held key is not counted", file: "metrics.go", more: true,
		old: "	m.started[item] = now\n",
		new: "	if len(m.started) == 0 {\n		m.started[item] = now\n	}\n",
	},
	{
		name: "lowest first", file: "levels.go", priorities: true,
		old: "return a.priority > b.priority",
		new: "return a.priority < b.priority",
	},
	{
		name: "a raised key keeps its place", file: "levels.go", priorities: true,
		old: "			l.pushed++\n			p.number = l.pushed\n			l.up(p.index)\n",
		new: "			l.up(p.index)\n",
	},
	{
		name: "the last priority counts", file: "levels.go", priorities: true, more: true,
		old: "	if priority > before {\n",
		new: "	if priority != before {\n",
	},
	{
		name: "a key added at once comes again", file: "priority.go", priorities: true, more: true,
		old: "	if _, head := q.waiting.remove(item); head {\n		q.signal()\n	}\n	return true\n",
		new: "	return true\n",
	},
	{
		name: "a queued key is delayed", file: "priority.go", priorities: true, more: true,
		old: "	if q.claim(item, priority, after <= 0) {\n",
		new: "	if q.claim(item, priority, after <= 0) && after <= 0 {\n",
	},
	{
		name: "the longer delay counts", file: "priority.go", priorities: true, more: true,
		old: "after == 0 || limited < after",
		new: "after == 0 || limited > after",
	},
	{
		name: "a delay forgets the priority", file: "levels.go", priorities: true, more: true,
		old: "	p.number, p.index = l.pushed, len(l.heap)\n",
		new: "	p.number, p.index = l.pushed, len(l.heap)\n	p.priority = min(p.priority, 0)\n",
	},
}

// The comparison with client-go is only worth something if it finds faults. Each mutant is
// built from the source of this package, and the scripts that TestSameAsClientGo runs with
// -short must find it, not by luck of one of them. The scripts are the same each time, so a
// mutant that was found once is found every time.
func TestComparisonFindsMutants(t *testing.T) {
	if os.Getenv(childEnv) != "" {
		return
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatalf("the go tool builds the mutants: %v", err)
	}
	for _, m := range append([]mutant{{name: "none"}, {name: "none", priorities: true}}, mutants...) {
		t.Run(m.name, func(t *testing.T) {
			if m.more && testing.Short() {
				return
			}
			output, err := runMutant(t, goTool, m)
			var differ, of int
			if at := strings.LastIndex(output, "scripts that differ: "); at >= 0 {
				if _, err := fmt.Sscanf(output[at:], "scripts that differ: %d of %d", &differ, &of); err != nil {
					t.Fatalf("%v in:\n%s", err, output)
				}
			}
			t.Logf("%d of the %d scripts differ; the process ended with %v", differ, of, err)
			switch {
			case m.file == "" && (err != nil || differ != 0 || of != shortSeeds):
				t.Errorf("%d of %d scripts differ without a mutant: %v\n%s", differ, of, err, output)
			case m.file != "" && differ < 5:
				t.Errorf("only %d of %d scripts found the mutant: %v\n%s", differ, of, err, output)
			}
		})
	}
}

// child is what the process with the mutant shall do.
func (m mutant) child() string {
	if m.priorities {
		return "priorities"
	}
	return "count"
}

// runMutant builds this package's test with a mutant, and lets it count the scripts that differ.
func runMutant(t *testing.T, goTool string, m mutant) (output string, err error) {
	t.Helper()
	dir := t.TempDir()
	overlay := map[string]map[string]string{"Replace": {}}
	if m.file != "" {
		source, err := os.ReadFile(m.file)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(source), m.old); n != 1 {
			t.Fatalf("%s has %d places for the mutant, want 1: adapt the mutant to the source", m.file, n)
		}
		original, err := filepath.Abs(m.file)
		if err != nil {
			t.Fatal(err)
		}
		mutated := filepath.Join(dir, m.file)
		overlay["Replace"][original] = mutated
		if err := os.WriteFile(mutated, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, replace, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "mutant.test")
	if out, err := exec.CommandContext(t.Context(), goTool, "test", "-c", "-ldflags", "-s -w", "-overlay", list, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the mutant: %v\n%s", err, out)
	}
	command := exec.CommandContext(t.Context(), binary, "-test.run", "^TestChildCountsDifferences$", "-test.v")
	command.Env = append(os.Environ(), childEnv+"="+m.child())
	out, err := command.CombinedOutput()
	return string(out), err
}

// TestChildCountsDifferences is run by TestComparisonFindsMutants in a process of its own.
func TestChildCountsDifferences(t *testing.T) {
	script := func(seed uint64) string { return compare(t, seed, ours()) }
	switch os.Getenv(childEnv) {
	case "":
		return
	case "priorities":
		script = func(seed uint64) string { return comparePriority(t, seed) }
	}
	differ := 0
	for seed := range uint64(shortSeeds) {
		if script(seed) != "" {
			differ++
		}
		// After each: a mutant may make a later script hang.
		fmt.Printf("scripts that differ: %d of %d\n", differ, seed+1)
	}
}
