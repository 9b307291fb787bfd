package admission

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
