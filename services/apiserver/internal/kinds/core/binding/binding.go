// Package binding serves Bindings, which assign pods to nodes.
package binding

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// Serve serves the binding subresource of a pod.
func Serve(c *rest.Call) error { return bind(c, c.Resource(), c.Request().Name) }

// ServeNamed returns what serves a Binding without a pod in its path, as the first clients of
// Kubernetes send it: it binds the pod of reg that has the Binding's name.
func ServeNamed(table *scheme.Table, reg *registry.Registry) rest.Serve {
	return func(c *rest.Call) error { return bind(c, reg.Resource(scheme.For[*corev1.Pod](table)), "") }
}

// bind binds the pod of a name or, without one, that of the Binding's name.
func bind(c *rest.Call, pods *registry.Resource, name string) error {
	format, err := c.Negotiate()
	if err != nil {
		return err
	}
	opts, err := c.CreateOptions()
	if err != nil {
		return err
	}
	binding := &corev1.Binding{}
	binding.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Binding"))
	if err := c.Read(binding, opts.FieldValidation); err != nil {
		return err
	}
	pod, err := Bind(c.Context(), pods, c.Request().Namespace, cmp.Or(name, binding.Name), binding, opts)
	if err != nil {
		return err
	}
	return c.Created(format, pod.GetResourceVersion())
}
