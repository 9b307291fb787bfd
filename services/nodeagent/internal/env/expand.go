package env

import "strings"

// Expand replaces each $(NAME) in s whose NAME is in mapping and leaves others as they are; $$ is
// an escaped $ (Kubernetes, EnvVar.value, Container.command and args).
func Expand(s string, mapping map[string]string) string {
	if !strings.Contains(s, "$") {
		return s
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
				b.WriteString(s[i : i+3+end])
			}
			i += 2 + end
		default:
			b.WriteByte('$')
		}
	}
	return b.String()
}

// ExpandAll expands every string of a command line.
func ExpandAll(list []string, mapping map[string]string) []string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, Expand(s, mapping))
	}
	return out
}
