package patterns

import (
	"math"
	"regexp/syntax"
	"strings"
	"testing"
)

// instructions returns to how many instructions a regular expression really compiles.
func instructions(t *testing.T, pattern string) int {
	t.Helper()
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		t.Fatal(err)
	}
	return len(compiled.Inst)
}

// TestSize checks that the size is about that of the compiled expression, and never far less.
func TestSize(t *testing.T) {
	for _, pattern := range []string{
		"", "a", "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "(a|b|cc)+", "a{3,}", "a{2,5}", "(?i)hello", strings.Repeat("ab", 500), "(?:(?:abc){10}){50}",
		"(?:" + strings.Repeat("abcdefgh", 10) + "){500}", "((a{9}){10}){11}", "(?:[a-f0-9]{8}-){40}",
	} {
		got, want := Size(pattern), instructions(t, pattern)
		if float64(got) < 0.5*float64(want)-5 || float64(got) > 4*float64(want)+5 {
			t.Errorf("%.40s: got %d, compiled it has %d", pattern, got, want)
		}
	}
	if got := Size(`[\pL]`); got < 20 || got > math.MaxInt16 {
		t.Errorf("a large class has the size %d", got)
	}
	if got := Size("(((a"); got != 4 {
		t.Errorf("what is no expression has the size %d", got)
	}
}

// TestInExpression checks that the strings of an expression are found wherever they stand.
func TestInExpression(t *testing.T) {
	for expression, want := range map[string]int{
		"self.matches('a{1000}')":                                        1000,
		"self.all(x, x.matches('a{1000}') || x == 'bb')":                 1000,
		`has(self.a) && self.?b.orValue('').find("a{1000}") == ""`:       1000,
		"self.`odd-name`.matches(r'a{1000}')":                            1000,
		"self.matches('''a{1000}''')":                                    1000,
		"cel.bind(p, 'a{1000}', [p].exists(q, {'k': q}.k.matches('b')))": 1000,
		"self > 1": 0,
		"self.(":   0,
	} {
		if got := InExpression(expression); got < want || got > want+20 {
			t.Errorf("%s: got %d, want about %d", expression, got, want)
		}
	}
}
