package env

import (
	"maps"
	"slices"
	"strings"
)

// Expand replaces each $(NAME) in s whose NAME is in mapping and leaves others as they are; $$ is
// an escaped $ (Kubernetes, EnvVar.value, Container.command and args).
func Expand(s string, mapping map[string]string) string {
	expanded, _ := expand(s, mapping)
	return expanded
}

// Missing returns the NAMEs in s that have no value in mapping, or an empty one, sorted.
func Missing(s string, mapping map[string]string) []string {
	valued := maps.Clone(mapping)
	maps.DeleteFunc(valued, func(_, value string) bool { return value == "" })
	_, missing := expand(s, valued)
	slices.Sort(missing)
	return slices.Compact(missing)
}

func expand(s string, mapping map[string]string) (expanded string, missing []string) {
	if !strings.Contains(s, "$") {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '$' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		switch s[i+1] {
		case '$':
			b.WriteByte('$')
			i++
		case '(':
			end := strings.IndexByte(s[i+2:], ')')
			if end < 0 {
				b.WriteByte('$')
				continue
			}
			name := s[i+2 : i+2+end]
			if value, ok := mapping[name]; ok {
				b.WriteString(value)
			} else {
				missing = append(missing, name)
				b.WriteString(s[i : i+3+end])
			}
			i += 2 + end
		default:
			b.WriteByte('$')
		}
	}
	return b.String(), missing
}

// ExpandAll expands every string of a command line.
func ExpandAll(list []string, mapping map[string]string) []string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, Expand(s, mapping))
	}
	return out
}
