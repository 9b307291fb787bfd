package strategy

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
)

// halves are the rules of a kind whose spec is its users' and whose status is its controller's,
// with a generation that counts the changes of the spec.
type halves[T scheme.Object, Spec, Status any] struct {
	of func(T) (*Spec, *Status)
}

// halvesOf makes the rules of the kind whose halves a function gives.
func halvesOf[T scheme.Object, Spec, Status any](of func(T) (*Spec, *Status)) halves[T, Spec, Status] {
	return halves[T, Spec, Status]{of: of}
}

// begin prepares a new object: it has no status yet.
func (h halves[T, Spec, Status]) begin(obj T) {
	_, status := h.of(obj)
	*status = *new(Status)
	obj.SetGeneration(1)
}

// keepStatus prepares a change of the object itself.
func (h halves[T, Spec, Status]) keepStatus(obj, old T) {
	spec, status := h.of(obj)
	oldSpec, oldStatus := h.of(old.DeepCopyObject().(T))
	*status = *oldStatus
	if !apiequality.Semantic.DeepEqual(spec, oldSpec) {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
}

// keepSpec prepares a change of the status.
func (h halves[T, Spec, Status]) keepSpec(obj, old T) {
	spec, _ := h.of(obj)
	oldSpec, _ := h.of(old.DeepCopyObject().(T))
	*spec = *oldSpec
}

// keepMetadata prepares a change of the status of a kind that gives its metadata to its users
// alone.
func keepMetadata(obj, old metav1.Object) { metav1.ResetObjectMetaForStatus(obj, old) }
