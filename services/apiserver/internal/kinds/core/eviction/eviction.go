// Package eviction serves the eviction subresource of pods: it deletes a pod if its disruption budget
// allows that.
package eviction

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/services/apiserver/internal/http/rest"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// Serve returns what serves the eviction subresource of the pods of reg.
func Serve(reg *registry.Registry) rest.Serve {
	return func(c *rest.Call) error { return serve(c, reg) }
}

func serve(c *rest.Call, reg *registry.Registry) error {
	// Another kind may have a subresource of this name.
	if of := c.Resource().Kind(); of != registry.Of[*corev1.Pod](reg).Kind() {
		return apierrors.NewMethodNotSupported(of.GroupResource(), "evict")
	}
	format, err := c.Negotiate()
	if err != nil {
		return err
	}
	opts, err := c.CreateOptions()
	if err != nil {
		return err
	}
	eviction, pod := &policyv1.Eviction{}, c.Request()
	eviction.SetGroupVersionKind(policyv1.SchemeGroupVersion.WithKind("Eviction"))
	if err := c.Read(eviction, opts.FieldValidation); err != nil {
		return err
	}
	if del := eviction.DeleteOptions; del != nil {
		if err := c.BodyDryRun(del.DryRun); err != nil {
			return err
		}
	}
	if err := Evict(c.Context(), reg, pod.Namespace, pod.Name, eviction, opts); err != nil {
		return err
	}
	return c.Created(format, "")
}
