package arch

import (
	"fmt"
	"maps"
)

// Limits of size, in lines. Generated files do not count, nor do the tests of a package.
const (
	MaxFileLines     = 450
	MaxTestFileLines = 800
	MaxPackageLines  = 2000
)

// largePackages are the packages that were over MaxPackageLines when that became the limit, with
// their lines. They may only shrink: the number of each follows its lines down, give or take
// largeSlack, and goes when it is below the limit.
var largePackages = map[string]int{
	"libs/bus":                                         2855,
	"libs/bus/bushttp":                                 2301,
	"libs/informer/workqueue":                          2196,
	"services/apiserver":                               2100,
	"services/apiserver/internal/admission":            2253,
	"services/apiserver/internal/kinds/columns":        2029,
	"services/apiserver/internal/registry":             2955,
	"services/apiserver/internal/kinds/strategy":       2642,
	"services/apiserver/internal/http/rest":            2077,
	"services/apiserver/internal/storage/store":        2727,
	"services/apiserver/internal/kinds/validation/pod": 2667,
}

// largeSlack is in percent.
const largeSlack = 3

// LargePackages returns the packages that may be larger than MaxPackageLines, with their lines.
func LargePackages() map[string]int { return maps.Clone(largePackages) }

// checkSizes finds files and packages that are too large.
func checkSizes(sources []source) []Violation {
	var found []Violation
	for _, s := range sources {
		limit := MaxFileLines
		if s.test {
			limit = MaxTestFileLines
		}
		if s.lines > limit && !s.generated {
			found = append(found, Violation{s.file, fmt.Sprintf("has %d lines, more than %d: one subject a file", s.lines, limit)})
		}
	}
	for dir, n := range packageLines(sources) {
		switch was := largePackages[dir]; {
		case was == 0 && n > MaxPackageLines:
			found = append(found, Violation{dir, fmt.Sprintf("has %d lines, more than %d: split the package", n, MaxPackageLines)})
		case was > 0 && n > was+was*largeSlack/100:
			found = append(found, Violation{dir, fmt.Sprintf("has %d lines, and had %d: it is too large already, and may only shrink", n, was)})
		}
	}
	return found
}

// staleSizes returns the packages that are smaller than largePackages says.
func staleSizes(sources []source) []Violation {
	lines := packageLines(sources)
	var found []Violation
	for dir, was := range largePackages {
		if n := lines[dir]; n < was-was*largeSlack/100 {
			why := "lower its number in largePackages"
			if n <= MaxPackageLines {
				why = "remove it from largePackages"
			}
			found = append(found, Violation{dir, fmt.Sprintf("has %d lines, and had %d: %s", n, was, why)})
		}
	}
	return found
}

func packageLines(sources []source) map[string]int {
	lines := map[string]int{}
	for _, s := range sources {
		if !s.test && !s.generated {
			lines[s.dir] += s.lines
		}
	}
	return lines
}
