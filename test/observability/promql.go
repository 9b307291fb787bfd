package observability

import "strings"

// words are what looks like a metric in PromQL and is none: keywords, and functions without a
// parenthesis behind them, such as aggregations before their labels.
var words = map[string]bool{
	"by": true, "without": true, "on": true, "ignoring": true, "group_left": true, "group_right": true, "bool": true, "offset": true,
	"and": true, "or": true, "unless": true, "inf": true, "nan": true, "start": true, "end": true, "atan2": true,
	"sum": true, "avg": true, "min": true, "max": true, "count": true, "group": true, "stddev": true, "stdvar": true,
	"topk": true, "bottomk": true, "quantile": true, "count_values": true,
}

// Metrics are the names of the metrics that a PromQL expression reads, in their order, each once.
// It takes the expression for valid: that is Prometheus' own to check.
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
			// A number, a duration such as 5m, or one of Grafana's variables.
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

// labels says whether a list of labels follows a keyword.
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

// quoted is where the string that begins at i has ended.
func quoted(s string, i int) int {
	quote := s[i]
	for i++; i < len(s) && s[i] != quote; i++ {
		if s[i] == '\\' && quote != '`' {
			i++
		}
	}
	return i + 1
}

// closed is where the bracket that opens at i is closed.
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
