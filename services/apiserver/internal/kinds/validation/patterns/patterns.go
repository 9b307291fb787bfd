// Package patterns measures the regular expressions that users write, before anything compiles them: a line
// of text can compile to a hundred megabytes.
package patterns

import (
	"regexp/syntax"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"
)

// most bounds what Size returns, so that sums of sizes do not overflow.
const most = 1 << 40

// runesPerInstruction is how many runes of character classes take the memory of one instruction.
const runesPerInstruction = 10

// Size returns about how many instructions a regular expression compiles to; about 50 bytes of memory
// each. It is the length of a text that is no regular expression.
func Size(pattern string) int {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return len(pattern)
	}
	return size(parsed)
}

func size(re *syntax.Regexp) int {
	total := 1
	switch re.Op {
	case syntax.OpLiteral:
		return max(1, len(re.Rune))
	case syntax.OpCharClass:
		return 1 + len(re.Rune)/runesPerInstruction
	case syntax.OpRepeat:
		return min(most, size(re.Sub[0])*max(re.Min, re.Max, 1)+1)
	}
	for _, part := range re.Sub {
		total = min(most, total+size(part))
	}
	return total
}

// InExpression returns the sum of the sizes of all strings in a CEL expression, each of which may be used as
// a regular expression. It is 0 if the expression cannot be parsed.
func InExpression(expression string) int {
	p, err := parser.NewParser(parser.EnableOptionalSyntax(true), parser.EnableIdentEscapeSyntax(true))
	if err != nil {
		return 0
	}
	parsed, errs := p.Parse(common.NewTextSource(expression))
	if len(errs.GetErrors()) > 0 {
		return 0
	}
	total := 0
	ast.PreOrderVisit(parsed.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.LiteralKind {
			return
		}
		if text, ok := e.AsLiteral().(types.String); ok {
			total = min(most, total+Size(string(text)))
		}
	}))
	return total
}
