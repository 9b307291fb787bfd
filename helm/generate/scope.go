package main

import "strings"

// noMetric has the PromQL keywords that look like a metric, since no parenthesis need follow them.
var noMetric = map[string]bool{
	"and": true, "or": true, "unless": true, "bool": true, "offset": true, "inf": true, "nan": true, "atan2": true,
}

// labelLists has the keywords that a parenthesized list of labels may follow.
var labelLists = map[string]bool{
	"by": true, "without": true, "on": true, "ignoring": true, "group_left": true, "group_right": true,
}

// aggregations has the operators that allow a list of labels before their argument: sum by (job) (up).
var aggregations = map[string]bool{
	"sum": true, "avg": true, "min": true, "max": true, "count": true, "group": true, "stddev": true, "stdvar": true,
	"topk": true, "bottomk": true, "quantile": true, "count_values": true,
}

// scope adds matcher, such as namespace="planes", to each series selector of expression. Everything else
// stays as written. It assumes that expression is valid PromQL.
func scope(expression, matcher string) string {
	var out strings.Builder
	rest := expression
	take := func(n int) string {
		taken := rest[:n]
		out.WriteString(taken)
		rest = rest[n:]
		return taken
	}
	for rest != "" {
		switch c := rest[0]; {
		case c == '"' || c == '\'' || c == '`':
			take(quoted(rest))
		case c == '[':
			take(strings.IndexByte(rest, ']') + 1)
		case c >= '0' && c <= '9' || c == '$':
			take(1 + span(rest[1:])) // a number, a duration such as 5m, or a Grafana variable
		case inName(c):
			word := strings.ToLower(take(span(rest)))
			blank := len(rest) - len(strings.TrimLeft(rest, " \t\n"))
			next := byte(0)
			if blank < len(rest) {
				next = rest[blank]
			}
			switch {
			case labelLists[word] && next == '(':
				take(blank + strings.IndexByte(rest[blank:], ')') + 1)
			case labelLists[word] || noMetric[word] || aggregations[word] || next == '(':
			case next == '{':
				take(blank + 1)
				out.WriteString(matcher)
				if rest[0] != '}' {
					out.WriteByte(',')
				}
				take(matchers(rest))
			default:
				out.WriteString("{" + matcher + "}")
			}
		default:
			take(1)
		}
	}
	return out.String()
}

func inName(c byte) bool {
	return c == '_' || c == ':' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// span returns the length of the word at the start of s.
func span(s string) int {
	n := 0
	for n < len(s) && inName(s[n]) {
		n++
	}
	return n
}

// quoted returns the length of the quoted string at the start of s.
func quoted(s string) int {
	n := 1
	for n < len(s) && s[n] != s[0] {
		if s[n] == '\\' && s[0] != '`' {
			n++
		}
		n++
	}
	return min(n+1, len(s))
}

// matchers returns the length of the matchers at the start of s, including the closing brace.
func matchers(s string) int {
	n := 0
	for n < len(s) && s[n] != '}' {
		if s[n] == '"' || s[n] == '\'' || s[n] == '`' {
			n += quoted(s[n:])
		} else {
			n++
		}
	}
	return min(n+1, len(s))
}
