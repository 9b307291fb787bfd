package registry

import (
	"cmp"
	"context"
	"fmt"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/registry/managedfields"
	"github.com/garboard/garboard/services/apiserver/internal/registry/ownerreferences"
	"github.com/garboard/garboard/services/apiserver/internal/storage/etcd"
)

// ownWriter owns the fields that the registry itself writes; the name is Kubernetes'.
const ownWriter = "kube-apiserver"

// record is how a write records who owns which fields.
type record int

const (
	// recordWriter makes the writer the owner of what it changes.
	recordWriter record = iota
	// recordGiven keeps the owners in the object: its creator has recorded them.
	recordGiven
	// recordNobody drops all owners.
	recordNobody
)

// own records the owners of obj, with which writer replaces live. live is nil if there is none;
// writer is empty if this process itself writes.
func (r *Resource) own(how record, subresource string, live, obj scheme.Object, writer string) {
	switch how {
	case recordWriter:
		if live == nil {
			live = r.kind.New()
		}
		r.owners.Update(r.kind, subresource, live, obj, cmp.Or(writer, ownWriter))
	case recordNobody:
		obj.SetManagedFields(nil)
	case recordGiven:
	}
}

// mutate runs the plugins that may change an object. They should not change its owners; if the
// result cannot be read, their change is dropped.
func (r *Resource) mutate(ctx context.Context, req *admission.Request) error {
	before := managedfields.RecordOf(req.Object)
	if err := r.admission.Mutate(ctx, req); err != nil {
		return err
	}
	if warning := ownerreferences.WithoutRepeatedByAdmission(req.Object); warning != "" {
		admission.Warn(ctx, warning)
	}
	if before.Unchanged(req.Object) {
		return nil
	}
	if err := managedfields.Check(req.Object.GetManagedFields()); err != nil {
		before.Restore(req.Object)
		admission.Warn(ctx, fmt.Sprintf(".metadata.managedFields was in an invalid state after admission; "+
			"this could be caused by an outdated mutating admission controller; please fix your requests: %v", err))
	}
	return nil
}

// tooLarge reports whether an object was refused for its size, of which managedFields may be a large part.
func tooLarge(err error) bool { return etcd.IsTooLarge(err) }
