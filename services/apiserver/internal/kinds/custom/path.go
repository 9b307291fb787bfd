package custom

import (
	"bytes"
	"fmt"
	"math"
	"reflect"

	"k8s.io/client-go/util/jsonpath"
)

// maxSteps bounds how many values the evaluation of a path may visit. It is far above the values of the
// largest object; only paths that visit a value again and again reach it.
const maxSteps = 10 << 20

// path is the JSONPath of a printer column. It is safe for concurrent use.
type path struct {
	text string
	// shared evaluates the path; nil if an evaluation changes it, so that each one has its own.
	shared *jsonpath.JSONPath
	// unions is how often a value is visited because lists of names or indexes repeat it, and recursions is
	// the number of descents to any depth.
	unions, recursions int
}

// newPath reads a path as Kubernetes writes it in definitions: without braces.
func newPath(text string) (read *path, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("reading the path %q: %v", text, problem)
		}
	}()
	p := &path{text: "{" + text + "}", unions: 1}
	parsed, err := jsonpath.Parse("column", p.text)
	if err != nil {
		return nil, err
	}
	if !p.weigh(parsed.Root) {
		p.shared, err = p.evaluator()
	}
	return p, err
}

func (p *path) evaluator() (*jsonpath.JSONPath, error) {
	evaluator := jsonpath.New("column").AllowMissingKeys(true)
	return evaluator, evaluator.Parse(p.text)
}

// weigh measures a part of the path. It reports whether it has a range, whose evaluation changes the path.
func (p *path) weigh(part jsonpath.Node) (ranges bool) {
	var parts []*jsonpath.ListNode
	switch node := part.(type) {
	case *jsonpath.ListNode:
		for _, one := range node.Nodes {
			ranges = p.weigh(one) || ranges
		}
	case *jsonpath.IdentifierNode:
		return true
	case *jsonpath.RecursiveNode:
		p.recursions++
	case *jsonpath.UnionNode:
		p.unions = min(math.MaxInt32, p.unions*max(1, len(node.Nodes)))
		parts = node.Nodes
	case *jsonpath.FilterNode:
		p.unions = min(math.MaxInt32, p.unions*2)
		parts = []*jsonpath.ListNode{node.Left, node.Right}
	}
	for _, one := range parts {
		if one != nil {
			ranges = p.weigh(one) || ranges
		}
	}
	return ranges
}

// tooLong reports whether the evaluation of the path may visit too many values of an object.
func (p *path) tooLong(of map[string]any) bool {
	if p.unions == 1 && p.recursions < 2 {
		return false
	}
	values, depth := extentOf(of)
	steps := values * p.unions
	for i := 1; i < p.recursions && steps <= maxSteps; i++ {
		steps *= depth
	}
	return steps > maxSteps
}

// extentOf returns how many values an object has, the bytes of texts among them, and how deep it is.
func extentOf(value any) (values, depth int) {
	add := func(one any) {
		more, below := extentOf(one)
		values, depth = values+more, max(depth, below)
	}
	switch typed := value.(type) {
	case map[string]any:
		for _, one := range typed {
			add(one)
		}
	case []any:
		for _, one := range typed {
			add(one)
		}
	case string:
		return 1 + len(typed), 2
	}
	return values + 1, depth + 1
}

// find returns the first value at the path; false if there is none. A path that an author made to fail, or
// to take long, finds nothing.
func (p *path) find(of map[string]any) (value any, found bool) {
	defer func() {
		if recover() != nil { // The library panics on some ranges.
			value, found = nil, false
		}
	}()
	if p.tooLong(of) {
		return nil, false
	}
	evaluator := p.shared
	if evaluator == nil {
		var err error
		if evaluator, err = p.evaluator(); err != nil {
			return nil, false
		}
	}
	results, err := evaluator.FindResults(of)
	if err != nil || len(results) == 0 || len(results[0]) == 0 {
		return nil, false
	}
	return results[0][0].Interface(), true
}

// printed returns a value as kubectl prints it; false if it cannot be printed.
func printed(value any) (string, bool) {
	var text bytes.Buffer
	if err := jsonpath.New("column").PrintResults(&text, []reflect.Value{reflect.ValueOf(value)}); err != nil {
		return "", false
	}
	return text.String(), true
}
