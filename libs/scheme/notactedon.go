package scheme

import (
	"fmt"
	"strings"
)

// NotActedOn is a part of a kind that is accepted and stored, but has no effect. Its writers get a
// warning, and docs/reference/kinds.md lists it. The rows are in notactedon_rows.go.
type NotActedOn struct {
	// Field is the path of the field, for example "spec.volumes[].emptyDir.sizeLimit"; empty for
	// the whole kind, or the whole Subresource.
	Field string
	// Subresource is the subresource whose writes have no effect; empty for the object itself.
	Subresource string
	// Text says what does not happen and, if there is an alternative, names it.
	Text string
	// By names the part of Kubernetes that acts on it, as Kubernetes does: a controller
	// ("job-controller"), a plugin ("ValidatingAdmissionWebhook"), a program ("kube-proxy").
	By string
	// set returns the paths at which an object has the field. It is nil for rows without a Field.
	set func(Object) []string
}

// maxPaths limits the fields that one warning names.
const maxPaths = 3

// Ignored returns a warning for each row of the kind that matches a write of obj through
// subresource, which is empty for the object itself.
func (k *Kind) Ignored(obj Object, subresource string) []string {
	var warnings []string
	for i := range k.NotActedOn {
		row := &k.NotActedOn[i]
		what := k.Kind
		switch {
		case row.Subresource != subresource && (subresource != "scale" || row.Subresource != "" || row.Field != ""):
			// Scaling an object without effect has no effect either.
			continue
		case row.Subresource != "":
			what = k.Resource + "/" + row.Subresource
		case row.set != nil:
			paths := row.set(obj)
			if len(paths) == 0 {
				continue
			}
			what = strings.Join(paths[:min(len(paths), maxPaths)], ", ")
			if more := len(paths) - maxPaths; more > 0 {
				what += fmt.Sprintf(" and %d more", more)
			}
		}
		warnings = append(warnings, what+" "+ignoredPhrase+row.Text)
	}
	return warnings
}

// ignoredPhrase is part of each warning of Ignored.
const ignoredPhrase = "is accepted but not acted on: "

// IsIgnored reports whether a warning is one of Kind.Ignored.
func IsIgnored(warning string) bool { return strings.Contains(warning, ignoredPhrase) }
