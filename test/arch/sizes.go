package arch

import "fmt"

// Size limits in lines. Generated files do not count, and neither do a package's tests.
const (
	MaxFileLines     = 450
	MaxTestFileLines = 800
	MaxPackageLines  = 2000
)

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
		if n > MaxPackageLines {
			found = append(found, Violation{dir, fmt.Sprintf("has %d lines, more than %d: split the package", n, MaxPackageLines)})
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
