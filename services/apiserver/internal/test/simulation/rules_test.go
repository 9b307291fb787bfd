package simulation_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// rule is one that the fabric needs: without it, a simulation fails.
type rule struct {
	name string
	// file is where the rule lives; each edit disables it there when mutant(name) is true.
	file  string
	edits []edit
	// simulation is the test that fails, within this many seeds.
	simulation string
	seeds      int
}

// edit replaces a text that occurs this many times in the file.
type edit struct {
	old, replaced string
	times         int
}

const (
	feedDir    = "services/apiserver/internal/storage/feed/"
	publishDir = "services/apiserver/internal/fabric/publish/"
	respondDir = "services/apiserver/internal/fabric/respond/"
	followDir  = "libs/informer/fabricsource/"
	webDir     = "libs/informer/listwatch/"
)

var rules = []rule{
	{"F3: an unknown head is the window's start, not 0", feedDir + "state.go", []edit{
		{"{ return max(s.start, s.heads[index]) }", "{\n\tif mutant(%q) {\n\t\treturn s.heads[index]\n\t}\n\treturn max(s.start, s.heads[index])\n}", 1},
	}, "TestAll", 10},
	{"acceptance: an answer fits the position", followDir + "machine.go", []edit{
		{"	if !m.accept(s) {\n		return false\n	}\n	m.drain()", "	if mutant(%q) {\n		m.at.Revision, s.Prev = min(m.at.Revision, s.Revision-1), fabric.Always\n	}\n	if !m.accept(s) {\n		return false\n	}\n	m.drain()", 1},
	}, "TestAll", 10},
	{"acceptance: a whole view is not below the position", followDir + "machine.go", []edit{
		{"if revision < m.at.Revision || revision", "if !mutant(%q) && revision < m.at.Revision || revision", 1},
	}, "TestAll", 100},
	{"R2: below the window the changes are unknown", feedDir + "statement.go", []edit{
		{"if c < f.state.start || view", "if c < f.state.start && !mutant(%q) || view", 1},
	}, "TestAll", 10},
	{"P4: progress is a link of the chain", followDir + "machine.go", []edit{
		{"	case last <= m.at.Revision:\n", "	case mutant(%q) && seen > m.at.Revision:\n		m.accept(statement{History: h, Prev: fabric.Always, Revision: seen})\n	case last <= m.at.Revision:\n", 1},
	}, "TestAll", 10},
	{"P5: the parts of a revision have no bodies", publishDir + "resource.go", []edit{
		{"|| !event.Alone ||", "|| !event.Alone && !mutant(%q) ||", 1},
	}, "TestAll", 10},
	{"F2: a revision is applied as a whole", feedDir + "feed.go", []edit{
		{"for len(records) > 0 && records[0].Revision == revision {", "for len(records) > 0 && records[0].Revision == revision && (len(changes) == 0 || !mutant(%q)) {", 1},
		{"	if revision <= f.state.through {\n		return //", "	if revision <= f.state.through && !mutant(%q) {\n		return //", 1},
	}, "TestAll", 10},
	{"P3: leaving a scope concerns only that scope", "libs/fabric/view.go", []edit{
		{"		if v.Scope == \"\" {\n			return false", "		if v.Scope == \"\" && !mutant(%q) {\n			return false", 1},
	}, "TestAll", 30},
	{"I2: the position stops where a body is missing", followDir + "wire.go", []edit{
		{"		e.omitted = true\n		return e, nil", "		e.omitted = !mutant(%q)\n		return e, nil", 1},
	}, "TestAll", 10},
	{"I5: another uid is another object", "libs/informer/sink.go", []edit{
		{"case old.GetUID() != obj.GetUID():", "case old.GetUID() != obj.GetUID() && !mutant(%q):", 2},
	}, "TestAll", 10},
	{"I5: a whole view replaces what is newer", "libs/informer/sink.go", []edit{
		{"		case old.GetResourceVersion() != obj.GetResourceVersion(),", "		case mutant(%q) && older(obj.GetResourceVersion(), old.GetResourceVersion()):\n			continue\n		case old.GetResourceVersion() != obj.GetResourceVersion(),", 1},
	}, "TestAll", 100},
	{"I5: equal revisions of two histories are not equal", "libs/informer/sink.go", []edit{
		{"renewed &&", "renewed && !mutant(%q) &&", 1},
	}, "TestAll", 200},
	{"R2: positions of another history mean nothing", respondDir + "question.go", []edit{
		{"ask.GetHistory() != nil &&", "ask.GetHistory() != nil && !mutant(%q) &&", 1},
	}, "TestAll", 200},
	{"H2: a feed leaves a history that is over", feedDir + "witness.go", []edit{
		{"f.state.history == current {", "f.state.history == current || mutant(%q) {", 1},
	}, "TestAll", 30},
	{"H2: a restore is noticed", feedDir + "witness.go", []edit{
		{"	if holds {\n", "	if holds || mutant(%q) {\n", 2},
	}, "TestRestoredWithoutNotice", 50},
	{"H2: the log is a witness", feedDir + "witness.go", []edit{
		{"	holds := now >= record.Revision && ", "	if mutant(%q) {\n		return nil\n	}\n	holds := now >= record.Revision && ", 1},
	}, "TestScenario31RestoredWithoutNoticeAndAllApiserversNew", 1},
	{"H2: histories only rise", feedDir + "witness.go", []edit{
		{"if !current.Before(newest) {", "if !current.Before(newest) || mutant(%q) {", 1},
		{"!own.Before(history)", "(mutant(%q) || !own.Before(history))", 1},
	}, "TestScenario30RestoredFromBeforeAHistory", 1},
	{"I1: the first reading is fresh", followDir + "schedule.go", []edit{
		{"	m.fresh = true\n	m.secondAt", "	m.fresh = !mutant(%q)\n	m.secondAt", 1},
	}, "TestAll", 50},
	{"I3, I4: an informer that hears too little asks", followDir + "*.go", []edit{
		{"		m.planQuiet(now, start)\n", "		if !mutant(%q) {\n			m.planQuiet(now, start)\n		}\n", 1},
		{"if !m.progressDue.IsZero() && !now", "if !mutant(%q) && !m.progressDue.IsZero() && !now", 1},
	}, "TestAll", 200},
	{"I4: silence leads to an ask", followDir + "schedule.go", []edit{
		{"!now.Before(m.progressDue) {", "!now.Before(m.progressDue) && !mutant(%q) {", 1},
	}, "TestNoPublisherAtTheEnd", 50},
	{"R3: a list belongs to the history that it names", followDir + "follower.go", []edit{
		{"if !listing.History.IsZero() {", "if !listing.History.IsZero() && !mutant(%q) {", 1},
	}, "TestLists", 200},
	{"I4: data over HTTP belongs to the history that it names", followDir + "fallback.go", []edit{
		{"at.History.IsZero() {", "at.History.IsZero() || mutant(%q) {", 1},
	}, "TestHTTP", 200},
	{"I4: a watch over HTTP continues in its own history", webDir + "follower.go", []edit{
		{"case of == fabric.History{}, of == f.history:", "case of == fabric.History{}, of == f.history, mutant(%q):", 1},
	}, "TestHTTP", 200},
	{"I6: heard revisions belong to one history", followDir + "machine.go", []edit{
		{"m.heardHistory, m.heard, m.last = h, revision, last\n", "if m.heardHistory = h; mutant(%q) {\n\t\t\tm.heard, m.last = max(m.heard, revision), max(m.last, last)\n\t\t} else {\n\t\t\tm.heard, m.last = revision, last\n\t\t}\n", 1},
		{"		m.heardHistory, m.heard, m.last = h, 0, 0\n", "		if m.heardHistory = h; !mutant(%q) {\n\t\t\tm.heard, m.last = 0, 0\n\t\t}\n", 1},
	}, "TestScenario31WhatWasHeardAndRequiredIsForgotten", 1},
	{"I6: required revisions belong to one history", followDir + "machine.go", []edit{
		{"		m.required = 0 // It was", "		if !mutant(%q) {\n\t\t\tm.required = 0\n\t\t} // It was", 1},
	}, "TestScenario31WhatWasHeardAndRequiredIsForgotten", 1},
}

const mutantSource = `package %s

import (
	"cmp"
	"os"
)

var taken = os.Getenv("GARBOARD_RULE")

func mutant(name string) bool { return taken == name }

func older(a, b string) bool { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) < 0 }

var _ = older
`

// TestRulesAreNeeded removes one rule at a time from the code itself, and expects a simulation to
// fail. All changed files are built into a second test binary, which is told the rule to remove.
func TestRulesAreNeeded(t *testing.T) {
	binary := buildWithoutRules(t)
	sim := func(t *testing.T, rule, simulation string, seeds int) (string, error) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, "-test.run", "^"+simulation+"$", "-seeds", fmt.Sprint(seeds), "-whole", "-test.timeout", "5m")
		cmd.Env = append(os.Environ(), "GARBOARD_RULE="+rule)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := sim(t, "none", "TestAll", 5); err != nil {
		t.Fatalf("with all rules: %v\n%s", err, out)
	}
	found := regexp.MustCompile(`seed (\d+): (.*)`)
	for _, r := range rules {
		t.Run(strings.ReplaceAll(r.name, " ", "_"), func(t *testing.T) {
			out, err := sim(t, r.name, r.simulation, r.seeds)
			if err == nil {
				t.Fatalf("%s passes with %d seeds without the rule", r.simulation, r.seeds)
			}
			what := found.FindStringSubmatch(out)
			if strings.HasPrefix(r.simulation, "TestScenario") {
				return
			}
			if what == nil {
				t.Fatalf("%s failed for another reason: %v\n%s", r.simulation, err, out)
			}
			t.Logf("found by seed %s: %s", what[1], what[2])
		})
	}
}

// buildWithoutRules builds this package's tests with the changed files.
func buildWithoutRules(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../../../..")
	if err != nil {
		t.Fatal(err)
	}
	changed := map[string]string{}
	for _, r := range rules {
		files, err := filepath.Glob(filepath.Join(root, r.file))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no file %s: %v", r.name, r.file, err)
		}
		for _, e := range r.edits {
			count := 0
			for _, file := range files {
				source, read := changed[file]
				if !read {
					data, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					source = string(data)
				}
				n := strings.Count(source, e.old)
				if n == 0 {
					continue
				}
				count += n
				changed[file] = strings.ReplaceAll(source, e.old, fmt.Sprintf(e.replaced, r.name))
			}
			if count != e.times {
				t.Errorf("%s: %q is %d times in %s, want %d: has the rule moved?", r.name, e.old, count, r.file, e.times)
			}
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	dir := t.TempDir()
	overlay := map[string]string{}
	place := func(path, source string) {
		to := filepath.Join(dir, fmt.Sprintf("%d.go", len(overlay)))
		if err := os.WriteFile(to, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay[path] = to
	}
	for file, source := range changed {
		place(file, source)
		if added := filepath.Join(filepath.Dir(file), "mutant_of_the_simulation.go"); overlay[added] == "" {
			place(added, fmt.Sprintf(mutantSource, filepath.Base(filepath.Dir(file))))
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	list, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "simulation.test")
	if err := os.WriteFile(list, data, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", list, "-o", binary, ".")
	// Build like make, so that only what the overlay changes is compiled.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("building without the rules: %v\n%s", err, out.String())
	}
	return binary
}
