// Package enablement checks which features and API versions the administrator turns on or off, with
// Kubernetes' flags --feature-gates and --runtime-config. Garboard has the features and versions that
// Kubernetes has by default, with no switch, so that the flags change nothing: what asks for the defaults
// is accepted, and everything else is an error that names the gate or version.
package enablement

import (
	_ "embed"
	"strings"
)

// release is the version of Kubernetes whose gates and API versions these are.
const release = "1.37"

// gatesFile has a line for each feature gate of kube-apiserver: its name, its default, its stage and whether
// it is locked. versionsFile has all API versions that kube-apiserver knows, also those that are off by
// default. `make upstream` compares both with Kubernetes.
var (
	//go:embed known/gates.txt
	gatesFile string
	//go:embed known/versions.txt
	versionsFile string
)

// lines returns the fields of each line.
func lines(file string) [][]string {
	var all [][]string
	for line := range strings.Lines(file) {
		if fields := strings.Fields(line); len(fields) > 0 {
			all = append(all, fields)
		}
	}
	return all
}
