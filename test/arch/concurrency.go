package arch

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// startingCalls are methods and functions that start a goroutine, or call their argument from one.
// The type of the receiver is ignored.
var startingCalls = []string{
	"Go", "TryGo", // sync.WaitGroup, errgroup.Group
	"Parallel", "RunParallel", // testing
	"AfterFunc",                                   // time, context
	"NewServer", "NewTLSServer", "ListenAndServe", // net/http, net/http/httptest
	"TimeoutHandler", "NewUnstartedServer", // net/http, net/http/httptest
	"Gather",                     // prometheus.Registry collects concurrently
	"AddCleanup", "SetFinalizer", // runtime
}

// startingImports are libraries, by path prefix, that start goroutines of their own.
var startingImports = []string{
	"testing/synctest",
	"golang.org/x/sync/errgroup",
	"go.etcd.io/etcd/client", "go.etcd.io/etcd/server",
	"github.com/nats-io/nats.go", "github.com/nats-io/nats-server",
	"github.com/prometheus/client_golang/prometheus/promhttp", "github.com/prometheus/client_golang/prometheus/testutil",
	"google.golang.org/grpc/test",
	"k8s.io/apimachinery/pkg/util/wait",
	"k8s.io/client-go/informers", "k8s.io/client-go/kubernetes/fake", "k8s.io/client-go/tools", "k8s.io/client-go/util/workqueue",
}

// startsGoroutine describes what in a file starts goroutines; it returns "" if it finds nothing.
func startsGoroutine(positions *token.FileSet, file *ast.File, imports []string) string {
	for _, imported := range imports {
		for _, library := range startingImports {
			if imported == library || strings.HasPrefix(imported, library+"/") {
				return "imports " + imported
			}
		}
	}
	found := ""
	ast.Inspect(file, func(node ast.Node) bool {
		if found != "" {
			return false
		}
		switch node := node.(type) {
		case *ast.GoStmt:
			found = fmt.Sprintf("has a go statement in line %d", positions.Position(node.Pos()).Line)
		case *ast.CallExpr:
			if called, ok := node.Fun.(*ast.SelectorExpr); ok && slices.Contains(startingCalls, called.Sel.Name) {
				found = fmt.Sprintf("calls %s in line %d", called.Sel.Name, positions.Position(node.Pos()).Line)
			}
		}
		return true
	})
	return found
}

// concurrency determines which packages of the module start goroutines.
type concurrency struct {
	// product and tests describe, for each folder, which file starts goroutines and how.
	product, tests map[string]string
	// productImports and testImports are folders of this module.
	productImports, testImports map[string][]string
	hasTests                    map[string]bool
}

func newConcurrency(sources []source) *concurrency {
	c := &concurrency{
		product: map[string]string{}, tests: map[string]string{},
		productImports: map[string][]string{}, testImports: map[string][]string{},
		hasTests: map[string]bool{},
	}
	for _, s := range sources {
		starts, imports := c.product, c.productImports
		if s.test {
			starts, imports = c.tests, c.testImports
			c.hasTests[s.dir] = true
		}
		if s.starts != "" && starts[s.dir] == "" {
			starts[s.dir] = s.file + " " + s.starts
		}
		for _, imported := range s.imports {
			if dir, ok := strings.CutPrefix(imported, Module+"/"); ok {
				imports[s.dir] = append(imports[s.dir], dir)
			}
		}
	}
	return c
}

// why returns what starts a goroutine in the tests of a folder's package: its sources, its tests,
// or a package of this module that either links. It returns "" if nothing does.
func (c *concurrency) why(dir string) string {
	if starts := cmp.Or(c.product[dir], c.tests[dir]); starts != "" {
		return starts
	}
	seen := map[string]bool{}
	todo := slices.Concat(c.productImports[dir], c.testImports[dir])
	for len(todo) > 0 {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[next] {
			continue
		}
		seen[next] = true
		if starts := c.product[next]; starts != "" {
			return "links " + starts
		}
		todo = append(todo, c.productImports[next]...)
	}
	return ""
}

// WithoutRace returns the sorted import paths of all packages with tests in which the race detector
// cannot find anything. Nothing in them starts a goroutine: neither their sources and tests, nor any
// package of this module that those link.
func WithoutRace(root string) ([]string, error) {
	sources, err := read(root)
	if err != nil {
		return nil, err
	}
	c := newConcurrency(sources)
	var found []string
	for dir := range c.hasTests {
		if c.why(dir) == "" {
			found = append(found, importPath(dir))
		}
	}
	slices.Sort(found)
	return found, nil
}

// CheckWithoutRace checks a list of packages to test without the race detector. It reports lines
// that are unsorted or duplicate, packages without tests, and packages that start goroutines.
func CheckWithoutRace(root string, listed []string) ([]Violation, error) {
	sources, err := read(root)
	if err != nil {
		return nil, err
	}
	c := newConcurrency(sources)
	var found []Violation
	for i, line := range listed {
		if i > 0 && listed[i-1] >= line {
			found = append(found, Violation{line, "is not sorted, or is listed twice"})
		}
		dir, ok := strings.CutPrefix(line, Module+"/")
		switch why := c.why(dir); {
		case !ok || !c.hasTests[dir]:
			found = append(found, Violation{line, "is not a package of this module with tests"})
		case why != "":
			found = append(found, Violation{line, "must be tested with the race detector: " + why})
		}
	}
	return found, nil
}

func importPath(dir string) string {
	if dir == "." {
		return Module
	}
	return Module + "/" + dir
}
