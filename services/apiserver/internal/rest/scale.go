package rest

import (
	"fmt"
	"net/http"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"github.com/garboard/garboard/services/apiserver/internal/answer"
	"github.com/garboard/garboard/services/apiserver/internal/audit"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

func newScale() *autoscalingv1.Scale {
	scale := &autoscalingv1.Scale{}
	scale.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	return scale
}

// scale serves the scale subresource.
func (c *call) scale() error {
	format, err := c.Answers.Negotiate(c.r)
	if err != nil {
		return err
	}
	switch c.req.Verb {
	case "get":
		scale, err := c.resource.Scale(c.ctx(), c.req.Namespace, c.req.Name)
		if err != nil {
			return err
		}
		c.Answers.Object(c.w, c.r, http.StatusOK, format, scale)
		return nil
	case "update":
		return c.putScale(format)
	}
	return c.patchScale(format)
}

func (c *call) putScale(format answer.Format) error {
	opts, err := c.updateOptions()
	if err != nil {
		return err
	}
	wanted := newScale()
	if err := c.readInto(newScale(), wanted, opts.FieldValidation); err != nil {
		return err
	}
	return c.writeScale(format, func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error) { return wanted, nil },
		registry.UpdateOptions{DryRun: isDryRun(opts.DryRun), FieldManager: opts.FieldManager})
}

func (c *call) patchScale(format answer.Format) error {
	var opts metav1.PatchOptions
	if err := c.options(c.r.URL.Query(), &opts); err != nil {
		return err
	}
	body, err := readBody(c.w, c.r)
	if err != nil {
		return err
	}
	audit.From(c.ctx()).Patch(body)
	change, err := c.patcher.Parse(c.r.Header.Get("Content-Type"), body, opts.FieldValidation)
	if err != nil {
		return err
	}
	if errs := metav1validation.ValidatePatchOptions(&opts, change.Type()); len(errs) > 0 {
		return apierrors.NewInvalid(metaKind("PatchOptions"), "", errs)
	}
	return c.writeScale(format, func(current *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		patched, found, err := change.Apply(current, newScale())
		if err != nil {
			return nil, err
		}
		// A refused patch has no second answer, and a retried one says the same: warn drops none of it.
		warn(c.w, found)
		scale, ok := patched.(*autoscalingv1.Scale)
		if !ok {
			return nil, apierrors.NewInternalError(fmt.Errorf("patching made a %T", patched))
		}
		return scale, nil
	}, registry.UpdateOptions{DryRun: isDryRun(opts.DryRun), FieldManager: opts.FieldManager})
}

func (c *call) writeScale(format answer.Format, change func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error), opts registry.UpdateOptions) error {
	scale, err := c.resource.UpdateScale(c.ctx(), c.req.Namespace, c.req.Name, change, opts)
	if err != nil {
		return err
	}
	c.trace(scale)
	c.Answers.Object(c.w, c.r, http.StatusOK, format, scale)
	return nil
}
