// Package ownerreferences removes the owners that an object names twice.
package ownerreferences

import (
	"fmt"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// repeatedOwners is Kubernetes' warning about owners that are named twice. The first placeholder
// says when they were found.
const repeatedOwners = ".metadata.ownerReferences contains duplicate entries%s; API server dedups owner references in 1.20+, " +
	"and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: %s"

// WithoutRepeated removes the repeated owners of an object that a client sent. It returns a warning
// that names them; empty if there are none. Owners with one UID that differ in any other field stay.
func WithoutRepeated(obj metav1.Object) (warning string) { return repeated(obj, "") }

// WithoutRepeatedByAdmission does the same after plugins have changed the object.
func WithoutRepeatedByAdmission(obj metav1.Object) (warning string) {
	return repeated(obj, " after mutating admission happens")
}

func repeated(obj metav1.Object, when string) string {
	owners := obj.GetOwnerReferences()
	if len(owners) < 2 {
		return ""
	}
	var kept []metav1.OwnerReference
	var twice []string
	for _, owner := range owners {
		known := false
		for i := range kept {
			known = known || kept[i].UID == owner.UID && apiequality.Semantic.DeepEqual(kept[i], owner)
		}
		if known {
			twice = append(twice, string(owner.UID))
		} else {
			kept = append(kept, owner)
		}
	}
	if len(twice) == 0 {
		return ""
	}
	obj.SetOwnerReferences(kept)
	return fmt.Sprintf(repeatedOwners, when, strings.Join(twice, ", "))
}
