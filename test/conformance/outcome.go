package main

import (
	"regexp"
	"strings"
)

// The states of a spec. The suite decides the first three.
const (
	statePassed  = "passed"
	stateFailed  = "failed"
	stateSkipped = "skipped"
	// stateMissing is that of a spec that the suite does not have, or that has not run.
	stateMissing = "missing"
	// stateTimeout is that of a spec that took longer than the limit.
	stateTimeout = "timeout"
)

const (
	// maxWhy and maxWidth bound the reason that is printed, in lines and in bytes per line.
	maxWhy   = 15
	maxWidth = 1000
)

// The lines of the suite's output that matter here. A reason begins with its state; the timeline
// repeats it as "[FAILED] in [It] - file".
var (
	counted = regexp.MustCompile(`(?m)^Ran (\d+) of \d+ Specs in `)
	reason  = regexp.MustCompile(`^\s*\[(FAILED|PANICKED|TIMEDOUT|INTERRUPTED|ABORTED|SKIPPED)\] (.*)$`)
	place   = regexp.MustCompile(`^\s*In \[[^\]]*\] at: `)
)

// read returns what a run of the suite for one spec says: the state, and the lines with the reason
// if the spec did not pass.
func read(output []byte, code int) result {
	text := string(output)
	ran := counted.FindStringSubmatch(text)
	why := reasons(text)
	switch {
	case ran != nil && code == 0 && ran[1] == "1":
		return result{State: statePassed}
	case ran != nil && code == 0 && len(why) > 0:
		return result{State: stateSkipped, Why: why}
	case ran != nil && code == 0:
		return result{State: stateMissing, Why: []string{"the suite ran " + ran[1] + " specs for this name"}}
	case len(why) == 0:
		why = last(text)
	}
	return result{State: stateFailed, Why: why}
}

// reasons returns the lines from each reason to the place in the suite's source from which it comes.
func reasons(text string) []string {
	var found, block []string
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		match := reason.FindStringSubmatch(line)
		if match != nil && !strings.HasPrefix(match[2], "in [") {
			block = []string{}
		}
		if block == nil || line == "" {
			continue
		}
		block = append(block, shorten(line))
		if !place.MatchString(line) {
			continue
		}
		if len(block) > maxWhy {
			block = append(block[:maxWhy-2:maxWhy-2], "…", block[len(block)-1])
		}
		// The same reason may be printed when it occurs, and again at the end.
		if whole := strings.Join(block, "\n"); !seen[whole] {
			seen[whole] = true
			found = append(found, block...)
		}
		block = nil
	}
	return found
}

// last returns the end of an output without a reason: that of a suite that crashed.
func last(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			lines = append(lines, shorten(line))
		}
	}
	return lines[max(0, len(lines)-maxWhy):]
}

// shorten removes the indentation that all lines have, and the end of a long line.
func shorten(line string) string {
	line = strings.TrimPrefix(line, "  ")
	if len(line) > maxWidth {
		line = strings.ToValidUTF8(line[:maxWidth], "") + "…"
	}
	return line
}
