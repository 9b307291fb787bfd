package response

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SameInternally reports that Kubernetes has one internal type for both kinds: they are versions of
// each other, or both are events. Other kinds cannot be converted.
func SameInternally(a, b schema.GroupVersionKind) bool {
	return a.Kind == b.Kind && (a.Group == b.Group || a.Kind == "Event")
}

// UnknownConversion returns Kubernetes' error for an object that is of another kind than the wanted
// one. It becomes a part of the error that a client gets.
func UnknownConversion(found, want schema.GroupVersionKind) error {
	return fmt.Errorf("converting (%s.%s) to (%s.%s): unknown conversion", found.Version, found.Kind, internalPackage(want), want.Kind)
}

// internalPackage returns the package of Kubernetes' internal type of a kind, which its errors
// name.
func internalPackage(kind schema.GroupVersionKind) string {
	if kind.Group == "" || kind.Kind == "Event" {
		return "core"
	}
	name, _, _ := strings.Cut(kind.Group, ".")
	return name
}
