package arch

import (
	"go/ast"
	"strings"
)

// leaky maps folders whose tests are not checked for leaked goroutines to the reason.
var leaky = map[string]string{}

// checkLeaks finds packages that start a goroutine, in their sources or their tests, and whose
// tests do not end with goleak's check. The check must be in a TestMain that is built whenever any
// of the package's test files is.
func checkLeaks(sources []source) []Violation {
	var found []Violation
	for dir, starts := range unchecked(sources) {
		if leaky[dir] == "" {
			found = append(found, Violation{dir, "has tests without goleak.VerifyTestMain in a TestMain: " + starts})
		}
	}
	return found
}

// unchecked returns the folders whose tests goleak does not check, with what starts goroutines
// there.
func unchecked(sources []source) map[string]string {
	c := newConcurrency(sources)
	verified := map[string]bool{}
	for _, s := range sources {
		if s.verifiesLeaks {
			verified[s.dir+" "+s.constraint] = true
		}
	}
	found := map[string]string{}
	for _, s := range sources {
		if !s.test || verified[s.dir+" "] || verified[s.dir+" "+s.constraint] {
			continue
		}
		if why := c.why(s.dir); why != "" {
			found[s.dir] = why
		}
	}
	return found
}

// staleLeaky returns the exceptions to checkLeaks that nothing needs.
func staleLeaky(sources []source) []Violation {
	without := unchecked(sources)
	var found []Violation
	for dir := range leaky {
		if without[dir] == "" {
			found = append(found, Violation{dir, "is a stale exception to the rule about goleak"})
		}
	}
	return found
}

// verifiesLeaks reports whether a file has a TestMain that ends with goleak's check.
func verifiesLeaks(file *ast.File) bool {
	found := false
	for _, decl := range file.Decls {
		function, ok := decl.(*ast.FuncDecl)
		if !ok || function.Recv != nil || function.Name.Name != "TestMain" {
			continue
		}
		ast.Inspect(function, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			found = found || ok && isSelector(call.Fun, "goleak", "VerifyTestMain")
			return !found
		})
	}
	return found
}

// constraint returns the build constraint of a file as written, or "".
func constraint(file *ast.File) string {
	for _, group := range file.Comments {
		if group.Pos() > file.Package {
			break
		}
		for _, comment := range group.List {
			if line, ok := strings.CutPrefix(comment.Text, "//go:build "); ok {
				return line
			}
		}
	}
	return ""
}
