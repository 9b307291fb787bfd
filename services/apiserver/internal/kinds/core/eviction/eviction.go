// Package eviction serves the eviction subresource of pods: it deletes a pod if its disruption budget
// allows that.
package eviction

import (
	policyv1 "k8s.io/api/policy/v1"

	"github.com/garboard/garboard/services/apiserver/internal/http/rest"
)

// Serve serves the eviction subresource of a pod.
func Serve(c *rest.Call) error {
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
	if err := c.Resource().Evict(c.Context(), pod.Namespace, pod.Name, eviction, opts); err != nil {
		return err
	}
	return c.Created(format, "")
}
