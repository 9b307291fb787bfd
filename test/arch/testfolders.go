package arch

import (
	"slices"
	"strings"
)

// testFolders maps folders of only tests that live elsewhere than others to the reason.
var testFolders = map[string]string{
	"libs/informer/workqueue/prioritytest": "controller-runtime sets client-go's metrics provider for its whole process",
}

// MisplacedTests returns the folders of only tests in places where readers look for code. Such tests
// live below test/, or below internal/test of the service whose packages they import; benchmarks
// below bench/. It also returns the exceptions to this that nothing needs.
func MisplacedTests(root string) ([]Violation, error) {
	sources, err := read(root)
	if err != nil {
		return nil, err
	}
	code, tests := map[string]bool{}, []string{}
	for _, s := range sources {
		if s.test {
			tests = append(tests, s.dir)
		} else {
			code[s.dir] = true
		}
	}
	slices.Sort(tests)
	misplaced := slices.DeleteFunc(slices.Compact(tests), func(dir string) bool {
		return code[dir] || below(dir, "test") || below(dir, "bench") || belowServiceTests(dir)
	})
	var found []Violation
	for _, dir := range misplaced {
		if testFolders[dir] == "" {
			found = append(found, Violation{dir, "has only tests: they belong below test/, or below services/<service>/internal/test"})
		}
	}
	for dir := range testFolders {
		if !slices.Contains(misplaced, dir) {
			found = append(found, Violation{dir, "is a stale exception to the rule about folders of only tests"})
		}
	}
	return found, nil
}

// belowServiceTests reports whether dir is below services/<service>/internal/test.
func belowServiceTests(dir string) bool {
	rest, ok := strings.CutPrefix(dir, "services/")
	if !ok {
		return false
	}
	_, rest, _ = strings.Cut(rest, "/")
	return strings.HasPrefix(rest, "internal/test/")
}
