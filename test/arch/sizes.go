package arch

import (
	"fmt"
	"maps"
)

// Size limits in lines. Generated files do not count, and neither do a package's tests.
const (
	MaxFileLines     = 450
	MaxTestFileLines = 800
	MaxPackageLines  = 2000
)

// largePackages lists the packages that exceeded MaxPackageLines when the limit was introduced,
// with their number of lines. They may only shrink: each number follows the package down, within
// largeSlack, and is removed once the package is below the limit.
var largePackages = map[string]int{}

// largeSlack is a percentage.
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
			found = append(found, Violation{dir, fmt.Sprintf("has %d lines, and had %d: it is already too large, and may only shrink", n, was)})
		}
	}
	return found
}

// staleSizes returns the packages that are smaller than largePackages lists.
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
