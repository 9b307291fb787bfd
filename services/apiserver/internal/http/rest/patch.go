package rest

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
	"github.com/garboard/garboard/services/apiserver/internal/http/body"
	"github.com/garboard/garboard/services/apiserver/internal/http/patch"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// readPatch reads a PATCH and its options, in Kubernetes' order: of several faults, the first counts.
func (c *call) readPatch() (*patch.Patch, metav1.PatchOptions, error) {
	var opts metav1.PatchOptions
	form, err := patch.TypeOf(c.req.Kind, c.r.Header.Get("Content-Type"))
	if err != nil {
		return nil, opts, err
	}
	data, err := body.Read(c.w, c.r)
	if err != nil {
		return nil, opts, err
	}
	if err := c.options(c.r.URL.Query(), &opts); err != nil {
		return nil, opts, err
	}
	if errs := metav1validation.ValidatePatchOptions(&opts, form); len(errs) > 0 {
		return nil, opts, apierrors.NewInvalid(metaKind("PatchOptions"), "", errs)
	}
	change, err := c.patcher.Parse(form, data, opts.FieldValidation)
	if err != nil {
		return nil, opts, err
	}
	audit.From(c.ctx()).Patch(data)
	return change, opts, nil
}

// patchOptions converts the options of a PATCH to the registry's.
func (c *call) patchOptions(opts metav1.PatchOptions) registry.UpdateOptions {
	return registry.UpdateOptions{
		Subresource: c.req.Subresource, DryRun: registry.IsDryRun(opts.DryRun), FieldManager: c.writer(opts.FieldManager),
		Force: opts.Force != nil && *opts.Force,
	}
}

func (c *call) patch() error {
	if _, err := patch.TypeOf(c.req.Kind, c.r.Header.Get("Content-Type")); err != nil {
		return err
	}
	format, err := c.negotiate()
	if err != nil {
		return err
	}
	change, opts, err := c.readPatch()
	if err != nil {
		return err
	}
	if change.Type() == types.ApplyYAMLPatchType {
		obj, made, err := c.apply(change, opts)
		if err != nil {
			return err
		}
		return c.written(format, obj, made)
	}
	var warnings []string
	updated, err := c.resource.Update(c.ctx(), c.req.Namespace, c.req.Name,
		func(current scheme.Object) (scheme.Object, error) {
			if current.GetResourceVersion() == "" {
				// A patch needs an object to start from, even where a PUT creates a new one.
				return nil, apierrors.NewNotFound(c.req.Kind.GroupResource(), c.req.Name)
			}
			patched, found, err := change.Apply(current, c.req.Kind.New(), c.prune)
			if err != nil {
				return nil, err
			}
			obj, ok := patched.(scheme.Object)
			if !ok {
				return nil, apierrors.NewInternalError(fmt.Errorf("patching returned a %T", patched))
			}
			if err := c.checkPatched(obj, current); err != nil {
				return nil, err
			}
			warnings = append(found, c.resource.Warnings(obj, c.req.Subresource)...)
			return obj, nil
		}, c.patchOptions(opts))
	if err != nil {
		return err
	}
	c.warnings.Add(warnings...)
	return c.written(format, updated, false)
}

// checkPatched refuses a patch that changes the object's name or UID.
func (c *call) checkPatched(obj, current scheme.Object) error {
	if err := c.checkName(obj); err != nil {
		return err
	}
	if uid := obj.GetUID(); uid != "" && uid != current.GetUID() {
		return apierrors.NewInvalid(c.req.Kind.GroupKind(), c.req.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "uid"), uid, apivalidation.FieldImmutableErrorMsg),
		})
	}
	return nil
}

// apply runs a server-side apply. made reports that the object was created.
func (c *call) apply(change *patch.Patch, opts metav1.PatchOptions) (obj scheme.Object, made bool, err error) {
	options := c.patchOptions(opts)
	options.Created = &made
	var warnings []string
	obj, err = c.resource.Apply(c.ctx(), c.req.Namespace, c.req.Name, change.Wanted(), func(merged scheme.Object) error {
		found, err := change.Strict()
		if err != nil {
			return err
		}
		if prune := c.resource.Definition().Prune; prune != nil {
			// What is null stays, for validation to refuse: only decoding removes it.
			if _, err := prune(merged, kinds.Pruning{KeepNulls: true}); err != nil {
				return err
			}
		}
		warnings = nil
		for _, text := range found {
			warnings = append(warnings, lines(text)...)
		}
		warnings = append(warnings, c.resource.Warnings(merged, c.req.Subresource)...)
		return nil
	}, options)
	if err == nil {
		c.warnings.Add(warnings...)
	}
	return obj, made, err
}
