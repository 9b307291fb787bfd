// Package objectmeta sets the metadata of new objects that clients may not choose.
package objectmeta

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/garboard/garboard/libs/scheme"
)

// Wipe clears the metadata that a client may not choose, before anything sees it or becomes its owner.
func Wipe(obj scheme.Object) {
	obj.SetUID("")
	obj.SetCreationTimestamp(metav1.Time{})
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetSelfLink("")
}

// Fill sets the metadata that a client may not choose, of an object of a kind.
func Fill(obj scheme.Object, kind *scheme.Kind) {
	Wipe(obj)
	obj.SetUID(uuid.NewUUID())
	obj.SetCreationTimestamp(metav1.Now().Rfc3339Copy())
	obj.SetGeneration(0)
	obj.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
}

// Kubernetes' generated names: the prefix is truncated so that prefix and suffix have at most 63
// characters.
const (
	generatedSuffix = 5
	generatedPrefix = 63 - generatedSuffix
)

// GenerateName returns a name with a prefix and a random suffix.
func GenerateName(prefix string) string {
	if len(prefix) > generatedPrefix {
		prefix = prefix[:generatedPrefix]
	}
	return prefix + utilrand.String(generatedSuffix)
}
