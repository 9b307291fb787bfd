package rest

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// observe reads an observed kind: one object, or those that the request selects.
func (c *call) observe() error {
	observe := c.Observations[c.req.Kind.GroupVersionKind]
	if observe == nil {
		return apierrors.NewMethodNotSupported(c.req.Kind.GroupResource(), c.req.Verb)
	}
	if c.req.Verb == "list" {
		return c.observed(observe)
	}
	format, err := c.negotiate()
	if err != nil {
		return err
	}
	named := func(obj metav1.Object) bool { return obj.GetName() == c.req.Name }
	objs, err := observe(c.ctx(), c.req.Namespace, c.req.Name, named)
	if err != nil {
		return err
	}
	for _, obj := range objs {
		if named(obj) {
			obj.GetObjectKind().SetGroupVersionKind(c.req.Kind.GroupVersionKind)
			return c.send(http.StatusOK, format, obj)
		}
	}
	return apierrors.NewNotFound(c.req.Kind.GroupResource(), c.req.Name)
}

func (c *call) observed(observe Observation) error {
	format, err := c.negotiateAs(asPartialList)
	if err != nil {
		return err
	}
	var opts metav1.ListOptions
	if err := c.options(c.r.URL.Query(), &opts); err != nil {
		return err
	}
	byLabel, err := labels.Parse(opts.LabelSelector)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseAndTransformSelector(opts.FieldSelector, runtime.DefaultMetaV1FieldSelectorConversion)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	matches := func(obj metav1.Object) bool {
		named := fields.Set{metav1.ObjectNameField: obj.GetName(), "metadata.namespace": obj.GetNamespace()}
		return byLabel.Matches(labels.Set(obj.GetLabels())) && byField.Matches(named)
	}
	objs, err := observe(c.ctx(), c.req.Namespace, "", matches)
	if err != nil {
		return err
	}
	found := []runtime.Object{}
	for _, obj := range objs {
		if matches(obj) {
			found = append(found, obj)
		}
	}
	list := c.req.Kind.NewList()
	if err := meta.SetList(list, found); err != nil {
		return apierrors.NewInternalError(err)
	}
	return c.sendList(format, list)
}
