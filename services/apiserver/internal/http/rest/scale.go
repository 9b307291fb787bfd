package rest

import (
	"fmt"
	"net/http"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

func newScale() *autoscalingv1.Scale {
	scale := &autoscalingv1.Scale{}
	scale.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	return scale
}

// scale serves the scale subresource.
func (c *call) scale() error {
	format, err := c.negotiate()
	if err != nil {
		return err
	}
	switch c.req.Verb {
	case "get":
		scale, err := c.resource.Scale(c.ctx(), c.req.Namespace, c.req.Name)
		if err != nil {
			return err
		}
		return c.send(http.StatusOK, format, scale)
	case "update":
		return c.putScale(format)
	}
	return c.patchScale(format)
}

func (c *call) putScale(format response.Format) error {
	opts, err := c.updateOptions()
	if err != nil {
		return err
	}
	wanted := newScale()
	if err := c.readInto(newScale(), wanted, opts.FieldValidation); err != nil {
		return err
	}
	return c.writeScale(format, func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error) { return wanted, nil },
		registry.UpdateOptions{DryRun: registry.IsDryRun(opts.DryRun), FieldManager: c.writer(opts.FieldManager)})
}

func (c *call) patchScale(format response.Format) error {
	change, opts, err := c.readPatch()
	if err != nil {
		return err
	}
	if change.Type() == types.ApplyYAMLPatchType {
		warnings, err := change.Strict()
		if err != nil {
			return err
		}
		scale, err := c.resource.ApplyScale(c.ctx(), c.req.Namespace, c.req.Name, change.Wanted(), c.patchOptions(opts))
		if err != nil {
			return err
		}
		warn(c.w, warnings)
		return c.sendScale(format, scale)
	}
	return c.writeScale(format, func(current *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		patched, found, err := change.Apply(current, newScale())
		if err != nil {
			return nil, err
		}
		// A refused patch sends no second response, and a retried one warns of the same: warn adds
		// each text.
		warn(c.w, found)
		scale, ok := patched.(*autoscalingv1.Scale)
		if !ok {
			return nil, apierrors.NewInternalError(fmt.Errorf("patching returned a %T", patched))
		}
		return scale, nil
	}, c.patchOptions(opts))
}

func (c *call) writeScale(format response.Format, change func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error), opts registry.UpdateOptions) error {
	scale, err := c.resource.UpdateScale(c.ctx(), c.req.Namespace, c.req.Name, change, opts)
	if err != nil {
		return err
	}
	return c.sendScale(format, scale)
}

func (c *call) sendScale(format response.Format, scale *autoscalingv1.Scale) error {
	warn(c.w, c.resource.Warnings(scale, "scale"))
	c.trace(scale)
	return c.send(http.StatusOK, format, scale)
}
