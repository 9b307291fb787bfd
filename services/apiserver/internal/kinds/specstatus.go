package kinds

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
)

// specStatus prepares changes of a kind whose spec belongs to its users and whose status belongs to
// its controller. The generation counts the changes of the spec.
type specStatus[T scheme.Object, Spec, Status any] struct {
	of func(T) (*Spec, *Status)
}

// Begin prepares a new object, which has no status yet.
func (h specStatus[T, Spec, Status]) Begin(obj T) {
	_, status := h.of(obj)
	*status = *new(Status)
	obj.SetGeneration(1)
}

// KeepStatus prepares an update of the object itself, which keeps the status.
func (h specStatus[T, Spec, Status]) KeepStatus(obj, old T) {
	spec, status := h.of(obj)
	oldSpec, oldStatus := h.of(old.DeepCopyObject().(T))
	*status = *oldStatus
	if !apiequality.Semantic.DeepEqual(spec, oldSpec) {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
}

// KeepSpec prepares an update of the status, which keeps the spec.
func (h specStatus[T, Spec, Status]) KeepSpec(obj, old T) {
	spec, _ := h.of(obj)
	oldSpec, _ := h.of(old.DeepCopyObject().(T))
	*spec = *oldSpec
}

// SpecStatusOf returns the rules of the kind whose spec and status a function returns.
func SpecStatusOf[T scheme.Object, Spec, Status any](of func(T) (*Spec, *Status)) specStatus[T, Spec, Status] {
	return specStatus[T, Spec, Status]{of: of}
}

// KeepMetadata prepares a status update of a kind whose metadata only its users may change.
func KeepMetadata(obj, old metav1.Object) { metav1.ResetObjectMetaForStatus(obj, old) }

// KeepAllMetadata does the same and restores generateName as well, which Kubernetes does for a few kinds.
func KeepAllMetadata(obj, old metav1.Object) {
	KeepMetadata(obj, old)
	obj.SetGenerateName(old.GetGenerateName())
}
