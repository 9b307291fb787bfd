package rest

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// review answers a review, an object of a virtual kind. It stores nothing.
func (c *call) review() error {
	format, err := c.Encoder.Negotiate(c.r)
	if err != nil {
		return err
	}
	ask := c.Reviews[c.req.Kind.GroupVersionKind]
	if ask == nil {
		return apierrors.NewMethodNotSupported(c.req.Kind.GroupResource(), c.req.Verb)
	}
	opts, err := c.createOptions()
	if err != nil {
		return err
	}
	obj, err := c.readObject(opts.FieldValidation)
	if err != nil {
		return err
	}
	switch namespace := obj.GetNamespace(); {
	case namespace == c.req.Namespace:
	case namespace == "", c.req.Namespace == "":
		obj.SetNamespace(c.req.Namespace)
	default:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if err := c.Registry.Admit(c.ctx(), c.req.Kind, c.req.Namespace, obj, registry.IsDryRun(opts.DryRun)); err != nil {
		return err
	}
	answered, err := ask(c.ctx(), c.req.Namespace, obj)
	if err != nil {
		return err
	}
	answered.GetObjectKind().SetGroupVersionKind(c.req.Kind.GroupVersionKind)
	c.Encoder.Object(c.w, c.r, http.StatusCreated, format, answered)
	return nil
}
