package observability

import "strings"

// words has what looks like a metric in PromQL but is not: keywords, and functions without a
// parenthesis after them, such as aggregations before their labels.
var words = map[string]bool{
	"by": true, "without": true, "on": true, "ignoring": true, "group_left": true, "group_right": true, "bool": true, "offset": true,
	"and": true, "or": true, "unless": true, "inf": true, "nan": true, "start": true, "end": true, "atan2": true,
	"sum": true, "avg": true, "min": true, "max": true, "count": true, "group": true, "stddev": true, "stdvar": true,
	"topk": true, "bottomk": true, "quantile": true, "count_values": true,
}

// Metrics returns the names of the metrics that a PromQL expression reads, in order, each once. It
// assumes that the expression is valid, which Prometheus itself checks.
func Metrics(expression string) []string {
	var found []string
	seen := map[string]bool{}
	for i := 0; i < len(expression); {
		switch c := expression[i]; {
		case c == '"' || c == '\'' || c == '`':
			i = quoted(expression, i)
		case c == '{' || c == '[':
			i = closed(expression, i)
		case c >= '0' && c <= '9' || c == '$':
			// A number, a duration such as 5m, or a Grafana variable.
			for i++; i < len(expression) && (letter(expression[i]) || expression[i] == '.'); i++ {
			}
		case letter(c):
			start := i
			for i < len(expression) && letter(expression[i]) {
				i++
			}
			name := expression[start:i]
			next := strings.TrimLeft(expression[i:], " \t\n")
			if labels(name) && strings.HasPrefix(next, "(") {
				i = closed(expression, len(expression)-len(next))
				continue
			}
			if !words[strings.ToLower(name)] && !strings.HasPrefix(next, "(") && !seen[name] {
				seen[name] = true
				found = append(found, name)
			}
		default:
			i++
		}
	}
	return found
}

// labels reports whether a list of labels follows a keyword.
func labels(word string) bool {
	switch strings.ToLower(word) {
	case "by", "without", "on", "ignoring", "group_left", "group_right":
		return true
	}
	return false
}

func letter(c byte) bool {
	return c == '_' || c == ':' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// quoted returns the index after the string that begins at i.
func quoted(s string, i int) int {
	quote := s[i]
	for i++; i < len(s) && s[i] != quote; i++ {
		if s[i] == '\\' && quote != '`' {
			i++
		}
	}
	return i + 1
}

// closed returns the index after the bracket that closes the one at i.
func closed(s string, i int) int {
	end := map[byte]byte{'{': '}', '[': ']', '(': ')'}[s[i]]
	for i++; i < len(s) && s[i] != end; {
		if s[i] == '"' || s[i] == '\'' || s[i] == '`' {
			i = quoted(s, i)
		} else {
			i++
		}
	}
	return i + 1
}
