// Package scale serves the scale subresource of workloads: their wanted and present replicas.
package scale

import (
	"fmt"
	"net/http"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

func newScale() *autoscalingv1.Scale {
	scale := &autoscalingv1.Scale{}
	scale.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	return scale
}

// Serve serves the scale subresource of a workload.
func Serve(c *rest.Call) error {
	format, err := c.NegotiateForms()
	if err != nil {
		return err
	}
	workload := c.Request()
	switch workload.Verb {
	case "get":
		scale, err := Get(c.Context(), c.Resource(), workload.Namespace, workload.Name)
		if err != nil {
			return err
		}
		return c.Send(http.StatusOK, format, scale)
	case "update":
		return put(c, format)
	}
	return patch(c, format)
}

func put(c *rest.Call, format response.Format) error {
	opts, err := c.UpdateOptions()
	if err != nil {
		return err
	}
	wanted := newScale()
	if err := c.Read(wanted, opts.FieldValidation); err != nil {
		return err
	}
	return update(c, format, func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error) { return wanted, nil },
		registry.UpdateOptions{DryRun: registry.IsDryRun(opts.DryRun), FieldManager: c.FieldManager(opts.FieldManager)})
}

func patch(c *rest.Call, format response.Format) error {
	change, opts, err := c.Patch()
	if err != nil {
		return err
	}
	if change.Type() == types.ApplyYAMLPatchType {
		warnings, err := change.Strict()
		if err != nil {
			return err
		}
		scale, err := Apply(c.Context(), c.Resource(), c.Request().Namespace, c.Request().Name, change.Wanted(), opts)
		if err != nil {
			return err
		}
		c.Warn(warnings...)
		return written(c, format, scale)
	}
	return update(c, format, func(current *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		patched, found, err := change.Apply(current, newScale(), nil)
		if err != nil {
			return nil, err
		}
		// A refused patch sends no second response, and a retried one warns of the same: Warn adds
		// each text.
		c.Warn(found...)
		scale, ok := patched.(*autoscalingv1.Scale)
		if !ok {
			return nil, apierrors.NewInternalError(fmt.Errorf("patching returned a %T", patched))
		}
		return scale, nil
	}, opts)
}

func update(c *rest.Call, format response.Format, change func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error), opts registry.UpdateOptions) error {
	scale, err := Update(c.Context(), c.Resource(), c.Request().Namespace, c.Request().Name, change, opts)
	if err != nil {
		return err
	}
	return written(c, format, scale)
}

func written(c *rest.Call, format response.Format, scale *autoscalingv1.Scale) error {
	c.Warn(c.Resource().Warnings(scale, c.Request().Subresource)...)
	return c.Written(format, scale)
}
