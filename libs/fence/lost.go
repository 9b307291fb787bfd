package fence

import (
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CauseLost is the cause in the Status of a write that was refused because its fence no longer
// holds.
const CauseLost metav1.CauseType = "FenceLost"

// Lost returns the API error (409 Conflict) for a write with the fence f while the lease is in the
// state now; nil if there is no such lease. The error names the holder of the lease and says that
// nothing was written.
func Lost(f Fence, now *Fence) error {
	var state string
	switch {
	case now == nil:
		state = "that lease is gone"
	case now.UID != f.UID:
		state = fmt.Sprintf("that lease is gone: another of its name is held by %q", now.Holder)
	case now.Holder == "":
		state = "no one holds it now"
	case now.Holder == f.Holder:
		state = fmt.Sprintf("%q holds it in another term now (leaseTransitions %d)", now.Holder, now.Transitions)
	default:
		state = fmt.Sprintf("%q holds it now", now.Holder)
	}
	message := fmt.Sprintf("the write was not done: it is fenced by the lease %s/%s in the term of %q (leaseTransitions %d), and %s",
		f.Namespace, f.Name, f.Holder, f.Transitions, state)
	err := apierrors.NewConflict(coordinationv1.Resource("leases"), f.Name, fmt.Errorf("%s", message))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: CauseLost, Message: message}}
	return err
}

// IsLost reports whether err means that a write was refused because its fence no longer holds.
// Retrying such a write is pointless.
func IsLost(err error) bool { return apierrors.HasStatusCause(err, CauseLost) }
