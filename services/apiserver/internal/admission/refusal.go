package admission

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Forbidden returns a plugin's 403 in Kubernetes' form. It doesn't wrap a 403 in another.
func Forbidden(req *Request, err error) *apierrors.StatusError {
	if already := (*apierrors.StatusError)(nil); errors.As(err, &already) && apierrors.IsForbidden(already) {
		return already
	}
	name := req.Name
	if name == "" && req.Object != nil {
		if name = req.Object.GetName(); name == "" {
			name = req.Object.GetGenerateName()
		}
	}
	if name == "" {
		name = "Unknown"
	}
	return apierrors.NewForbidden(req.Kind.GroupResource(), name, err)
}

// Unclassified returns a 500 with only the text of err and no reason. Kubernetes responds so to a
// plugin's error that has no status.
func Unclassified(err error) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonUnknown, Message: err.Error(),
	}}
}
