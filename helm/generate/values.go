package main

import (
	"fmt"
	"regexp"
	"strings"
)

// row is a value with its comment.
type row struct {
	path     string
	fallback string // the default as YAML, on one line
	text     string
}

// section returns the top-level value that contains the row, or "" for a top-level value.
func (r row) section() string {
	section, _, below := strings.Cut(r.path, ".")
	if !below {
		return ""
	}
	return section
}

var valueLine = regexp.MustCompile(`^( *)([A-Za-z]+):(?: (.*))?$`)

// parseValues reads values.yaml. A one-line comment that begins with "# -- " precedes each value;
// objects whose values have their own comments have none.
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
			return nil, fmt.Errorf("line %d is not a value: %s", i+1, line)
		}
		depth := len(match[1]) / 2
		if depth > len(path) {
			return nil, fmt.Errorf("line %d is indented too far: %s", i+1, line)
		}
		path = append(path[:depth], match[2])
		name, value := strings.Join(path, "."), match[3]
		switch {
		case comment == "" && value == "":
			continue
		case comment == "":
			return nil, fmt.Errorf("line %d: %s has no comment", i+1, name)
		case value == "": // The lines below are its default.
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

// flow writes nested objects with scalar values on one line.
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

// table returns the Markdown table of a section's values.
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
