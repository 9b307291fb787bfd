package arch

import (
	"fmt"
	"strings"
)

// A package with more than MinTestedLines lines has tests of its own, in its folder, with at least
// one line for every LinesForTest of its lines. Generated files do not count.
const (
	MinTestedLines = 200
	LinesForTest   = 2
)

// testedElsewhere maps the packages with fewer tests to the reason.
var testedElsewhere = map[string]string{
	"cmd/apiserver":                                       isDoor,
	"cmd/internal/flags":                                  isDoor,
	"compose/grafana/generate":                            isGenerator,
	"docs/diagrams/draw":                                  isGenerator,
	"helm/generate":                                       isGenerator,
	"libs/bus/bustest":                                    isTestSupport,
	"libs/bus/embedded":                                   isTestSupport,
	"libs/client/fake":                                    isTestSupport,
	"libs/informer/internal/cache":                        "the tests of libs/informer and libs/informer/store compare it with client-go's store",
	"services/apiserver/internal/fabric/link":             isDoor,
	"services/apiserver/internal/http/access":             isDoor,
	"services/apiserver/internal/admission/admissiontest": isTestSupport,
	"services/apiserver/internal/kinds/conformance":       isTestSupport,
	"services/apiserver/internal/kinds/kindsdoc":          isGenerator,
	"services/apiserver/internal/registry/registrytest":   isTestSupport,
	"services/apiserver/internal/server":                  isDoor,
	"services/apiserver/internal/server/config":           "most of it declares fields, whose faults the tests of the door check too",
	"services/apiserver/internal/storage/store/etcdtest":  isTestSupport,
	"services/apiserver/internal/upkeep/bootstraproles":   mostlyTable,
	"services/controllers/internal/controltest":           isTestSupport,
	"services/nodeagent":                                  isDoor,
	"services/standalone":                                 isDoor,
	"services/apiserver/internal/http/rest/resttest":      isTestSupport,
	"services/nodeagent/internal/runtime/conformance":     isTestSupport,
}

// The reasons that several packages share.
const (
	isDoor        = "a door: it wires rooms that have tests, and tests of the whole plane start it"
	isTestSupport = "support for tests: every test that uses it tests it"
	isGenerator   = "a generator: CI compares what it writes with the tree"
	mostlyTable   = "most of it is a table, which the tests of its readers check"
)

// checkTested finds packages with too few tests.
func checkTested(sources []source) []Violation {
	var found []Violation
	for dir, lines := range untested(sources) {
		if testedElsewhere[dir] == "" {
			found = append(found, Violation{dir, fmt.Sprintf(
				"has %d lines and %d of tests: a package tests its own logic, with half as many lines", lines.source, lines.test)})
		}
	}
	return found
}

// staleTested returns the exceptions to checkTested that nothing needs.
func staleTested(sources []source) []Violation {
	without := untested(sources)
	var found []Violation
	for dir := range testedElsewhere {
		if _, ok := without[dir]; !ok {
			found = append(found, Violation{dir, "has enough tests: remove it from testedElsewhere"})
		}
	}
	return found
}

type tested struct{ source, test int }

// untested returns the packages of the product with too few tests. Below bench, tools and every
// folder named test, packages serve tests and developers.
func untested(sources []source) map[string]tested {
	packages := map[string]tested{}
	for _, s := range sources {
		if s.generated || strings.Contains("/"+s.dir+"/", "/test/") || below(s.dir, "bench") || below(s.dir, "tools") {
			continue
		}
		lines := packages[s.dir]
		if s.test {
			lines.test += s.lines
		} else {
			lines.source += s.lines
		}
		packages[s.dir] = lines
	}
	for dir, lines := range packages {
		if lines.source <= MinTestedLines || lines.test*LinesForTest >= lines.source {
			delete(packages, dir)
		}
	}
	return packages
}
