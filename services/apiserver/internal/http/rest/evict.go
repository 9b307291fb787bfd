package rest

import (
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
)

// evict serves the eviction subresource of a pod.
func (c *call) evict() error {
	format, err := c.Answers.Negotiate(c.r)
	if err != nil {
		return err
	}
	var opts metav1.CreateOptions
	if err := c.options(c.r.URL.Query(), &opts); err != nil {
		return err
	}
	if errs := metav1validation.ValidateCreateOptions(&opts); len(errs) > 0 {
		return apierrors.NewInvalid(metaKind("CreateOptions"), "", errs)
	}
	eviction, typed := &policyv1.Eviction{}, &policyv1.Eviction{}
	typed.SetGroupVersionKind(policyv1.SchemeGroupVersion.WithKind("Eviction"))
	if err := c.readInto(typed, eviction, opts.FieldValidation); err != nil {
		return err
	}
	if del := eviction.DeleteOptions; del != nil {
		if err := c.dry(del.DryRun); err != nil {
			return err
		}
	}
	if err := c.resource.Evict(c.ctx(), c.req.Namespace, c.req.Name, eviction, opts); err != nil {
		return err
	}
	c.done(format, "")
	return nil
}
