package main

import (
	"fmt"
	"regexp"
	"strings"
)

// row is one value with its comment.
type row struct {
	path     string
	fallback string // as YAML, in one line
	text     string
}

// section is the topmost value that the row is below; empty for a value that is below none.
func (r row) section() string {
	section, _, below := strings.Cut(r.path, ".")
	if !below {
		return ""
	}
	return section
}

var valueLine = regexp.MustCompile(`^( *)([A-Za-z]+):(?: (.*))?$`)

// parseValues reads values.yaml, in which each value has a comment of one line before it, that
// begins with "# -- ". Objects whose values have comments of their own have none.
func parseValues(data []byte) ([]row, error) {
	var rows []row
	var path []string
	comment := ""
	lines := strings.Split(string(data), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		trimmed := strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(trimmed, "# -- "); ok {
			comment = text
			continue
		}
		if trimmed == "" || strings.HasPrefix(trimmed, "#") {
			continue
		}
		match := valueLine.FindStringSubmatch(line)
		if match == nil {
			return nil, fmt.Errorf("line %d is no value: %s", i+1, line)
		}
		depth := len(match[1]) / 2
		if depth > len(path) {
			return nil, fmt.Errorf("line %d is too far in: %s", i+1, line)
		}
		path = append(path[:depth], match[2])
		name, value := strings.Join(path, "."), match[3]
		switch {
		case comment == "" && value == "":
			continue
		case comment == "":
			return nil, fmt.Errorf("line %d: %s has no comment", i+1, name)
		case value == "": // What is below is its default.
			for i+1 < len(lines) && strings.HasPrefix(lines[i+1], match[1]+"  ") {
				i++
				value += strings.TrimPrefix(lines[i], match[1]+"  ") + "\n"
			}
			value = flow(value)
		}
		rows = append(rows, row{path: name, fallback: value, text: comment})
		comment = ""
	}
	return rows, nil
}

// flow writes nested objects, whose values are plain, in one line.
func flow(block string) string {
	var out strings.Builder
	out.WriteString("{")
	depth, first := 0, true
	for line := range strings.Lines(block) {
		match := valueLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if match == nil {
			continue
		}
		for now := len(match[1]) / 2; depth > now; depth-- {
			out.WriteString("}")
		}
		if !first {
			out.WriteString(", ")
		}
		out.WriteString(match[2] + ": ")
		if first = match[3] == ""; first {
			out.WriteString("{")
			depth++
		} else {
			out.WriteString(match[3])
		}
	}
	return out.String() + strings.Repeat("}", depth+1)
}

// table is the table of the values of a section.
func table(rows []row, section string) (string, error) {
	var out strings.Builder
	out.WriteString("| Value | Default | |\n|---|---|---|\n")
	found := false
	for _, r := range rows {
		if r.section() != section {
			continue
		}
		found = true
		_, _ = fmt.Fprintf(&out, "| `%s` | `%s` | %s |\n", r.path, r.fallback, strings.ReplaceAll(r.text, "|", `\|`))
	}
	if !found {
		return "", fmt.Errorf("there are no values below %q", section)
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}
