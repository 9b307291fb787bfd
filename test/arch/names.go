package arch

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
)

// Nomenclature is the page that explains every name of a package, from the root.
const Nomenclature = "docs/NOMENCLATURE.md"

// services are the names of the plane's services, which the whole documentation explains.
var services = []string{"apiserver", "controllers", "scheduler", "nodeagent", "garboard"}

// UnexplainedNames returns the packages whose names Nomenclature does not mention.
func UnexplainedNames(root string) ([]Violation, error) {
	page, err := os.ReadFile(filepath.Join(root, Nomenclature))
	if err != nil {
		return nil, err
	}
	sources, err := read(root)
	if err != nil {
		return nil, err
	}
	explained := map[string]bool{}
	for _, word := range regexp.MustCompile(`[a-z0-9]+`).FindAll(page, -1) {
		explained[string(word)] = true
	}
	var dirs []string
	for _, s := range sources {
		if !s.test && !s.generated {
			dirs = append(dirs, s.dir)
		}
	}
	slices.Sort(dirs)
	var found []Violation
	for _, dir := range slices.Compact(dirs) {
		if name := path.Base(dir); !explained[name] && !slices.Contains(services, name) {
			found = append(found, Violation{dir, fmt.Sprintf("is a name that %s does not explain", Nomenclature)})
		}
	}
	return found, nil
}
