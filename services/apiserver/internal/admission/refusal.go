package admission

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// forbidden is the 403 of a plugin, in Kubernetes' form. A 403 is not wrapped in another.
func forbidden(req *Request, err error) *apierrors.StatusError {
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
