package main

import (
	_ "embed" // for the classes
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// classesFile lists the specs by class.
//
//go:embed classes.txt
var classesFile string

// serialMark is in the name of a spec that must run alone.
const serialMark = "[Serial]"

// spec is one test of the suite.
type spec struct {
	class string
	name  string
}

// serial reports whether the spec must run alone.
func (s spec) serial() bool { return strings.Contains(s.name, serialMark) }

// readClasses reads the format that the head of classes.txt describes.
func readClasses(text string) ([]spec, error) {
	var specs []spec
	seen := map[string]bool{}
	class := ""
	for number, line := range strings.Split(text, "\n") {
		fault := func(what string) error { return fmt.Errorf("classes.txt, line %d: %s: %q", number+1, what, line) }
		heading, isHeading := strings.CutPrefix(line, "== ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case isHeading:
			name, needs, ok := strings.Cut(heading, ": ")
			if !ok || name == "" || needs == "" {
				return nil, fault("a class needs a name and a description")
			}
			class = name
		case class == "":
			return nil, fault("a spec before the first class")
		case seen[line]:
			return nil, fault("a spec that is listed twice")
		default:
			seen[line] = true
			specs = append(specs, spec{class, line})
		}
	}
	return specs, nil
}

// choose returns the specs of some classes, or of all, whose names match a regular expression.
func choose(all []spec, classes, focus string) ([]spec, error) {
	pattern, err := regexp.Compile(focus)
	if err != nil {
		return nil, fmt.Errorf("-focus: %w", err)
	}
	wanted := strings.FieldsFunc(classes, func(r rune) bool { return r == ',' })
	for _, class := range wanted {
		if !slices.ContainsFunc(all, func(s spec) bool { return s.class == class }) {
			return nil, fmt.Errorf("-class: there is no class %q", class)
		}
	}
	var chosen []spec
	for _, s := range all {
		if (len(wanted) == 0 || slices.Contains(wanted, s.class)) && pattern.MatchString(s.name) {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no spec of these classes matches %q", focus)
	}
	return chosen, nil
}
