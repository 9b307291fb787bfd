// Package doctor checks every connection of a plane and advises on the problems it finds.
//
// Gather gathers facts: each request is bounded in time, and a missing answer is a fact like any
// other. Check judges the facts without any requests.
package doctor

import (
	"fmt"
	"io"

	"github.com/garboard/garboard/cmd/garboard/internal/plane"
)

// Level is the severity of a finding.
type Level string

// The levels.
const (
	OK   Level = "OK"
	Warn Level = "WARN"
	Fail Level = "FAIL"
)

// Finding is the result of one check.
type Finding struct {
	// Group is the group of the thing checked, Name its name.
	Group string `json:"group"`
	Name  string `json:"name"`
	Level Level  `json:"level"`
	// Says is what was found; Advice is one sentence on what to do, empty when all is well.
	Says   string `json:"says"`
	Advice string `json:"advice,omitempty"`
}

// Findings are ordered by group.
type Findings []Finding

// Worst returns the level of the worst finding.
func (f Findings) Worst() Level {
	worst := OK
	for _, one := range f {
		switch one.Level {
		case Fail:
			return Fail
		case Warn:
			worst = Warn
		case OK:
		}
	}
	return worst
}

// ExitCode returns 0 when all is well, 1 for warnings, 2 for failures.
func (f Findings) ExitCode() int { return map[Level]int{OK: 0, Warn: 1, Fail: 2}[f.Worst()] }

// Write writes the findings as text for people.
func (f Findings) Write(w io.Writer) error {
	group := ""
	counts := map[Level]int{}
	for _, one := range f {
		if one.Group != group {
			if group != "" {
				if _, err := fmt.Fprintln(w); err != nil {
					return err
				}
			}
			group = one.Group
			if _, err := fmt.Fprintln(w, group); err != nil {
				return err
			}
		}
		counts[one.Level]++
		if _, err := fmt.Fprintf(w, "  %-4s  %s: %s\n", one.Level, plane.Plain(one.Name), plane.Plain(one.Says)); err != nil {
			return err
		}
		if one.Advice != "" {
			if _, err := fmt.Fprintf(w, "        -> %s\n", one.Advice); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintf(w, "\n%d OK, %d WARN, %d FAIL\n", counts[OK], counts[Warn], counts[Fail])
	return err
}

// list collects the findings of one group.
type list struct {
	group string
	all   *Findings
}

func (l list) add(level Level, name, says, advice string) {
	if level == OK {
		advice = ""
	}
	*l.all = append(*l.all, Finding{Group: l.group, Name: name, Level: level, Says: says, Advice: advice})
}

func (l list) ok(name, format string, args ...any) { l.add(OK, name, fmt.Sprintf(format, args...), "") }
