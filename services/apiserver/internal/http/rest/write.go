package rest

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metascheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
	"github.com/garboard/garboard/services/apiserver/internal/http/body"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/registry/deletion"
	"github.com/garboard/garboard/services/apiserver/internal/registry/managedfields"
	"github.com/garboard/garboard/services/apiserver/internal/registry/ownerreferences"
)

func (c *call) create() error {
	format, err := c.negotiate()
	if err != nil {
		return err
	}
	opts, err := c.createOptions()
	if err != nil {
		return err
	}
	obj, err := c.readObject(opts.FieldValidation)
	if err != nil {
		return err
	}
	c.warnRepeatedOwners(obj)
	warnings := c.resource.Warnings(obj, c.req.Subresource)
	opts.FieldManager = c.writer(opts.FieldManager)
	created, err := c.resource.Create(c.ctx(), c.req.Namespace, obj, opts)
	if err != nil {
		return err
	}
	c.warnings.Add(warnings...)
	c.trace(created)
	return c.send(http.StatusCreated, format, created)
}

// readObject reads the body as an object of the request's kind.
func (c *call) readObject(directive string) (scheme.Object, error) {
	obj := c.req.Kind.New()
	if err := c.readInto(obj, directive); err != nil {
		return nil, err
	}
	return obj, nil
}

// readInto reads the body into obj, which has its group, version and kind set.
func (c *call) readInto(obj runtime.Object, directive string) error {
	data, err := body.Read(c.w, c.r)
	if err != nil {
		return err
	}
	want := obj.GetObjectKind().GroupVersionKind()
	warnings, err := c.decode(data, want, obj, directive)
	if err != nil {
		return err
	}
	if !c.holdsCustom(want) {
		obj.GetObjectKind().SetGroupVersionKind(want)
	}
	audit.From(c.ctx()).Request(obj)
	c.warnings.Add(warnings...)
	return nil
}

// updateOptions reads the query of a PUT.
func (c *call) updateOptions() (metav1.UpdateOptions, error) {
	var opts metav1.UpdateOptions
	if err := c.options(c.r.URL.Query(), &opts); err != nil {
		return opts, err
	}
	if errs := metav1validation.ValidateUpdateOptions(&opts); len(errs) > 0 {
		return opts, apierrors.NewInvalid(metaKind("UpdateOptions"), "", errs)
	}
	return opts, nil
}

func (c *call) update() error {
	format, err := c.negotiate()
	if err != nil {
		return err
	}
	opts, err := c.updateOptions()
	if err != nil {
		return err
	}
	obj, err := c.readObject(opts.FieldValidation)
	if err != nil {
		return err
	}
	if err := c.checkName(obj); err != nil {
		return err
	}
	c.warnRepeatedOwners(obj)
	warnings := c.resource.Warnings(obj, c.req.Subresource)
	var made bool
	updated, err := c.resource.Update(c.ctx(), c.req.Namespace, c.req.Name,
		func(scheme.Object) (scheme.Object, error) { return obj, nil },
		registry.UpdateOptions{
			Subresource: c.req.Subresource, DryRun: registry.IsDryRun(opts.DryRun), FieldManager: c.writer(opts.FieldManager), Created: &made,
		})
	if err != nil {
		return err
	}
	c.warnings.Add(warnings...)
	return c.written(format, updated, made)
}

// checkName compares the name of the object in the body with the name in the path.
func (c *call) checkName(obj scheme.Object) error {
	switch obj.GetName() {
	case c.req.Name:
		return nil
	case "":
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", c.req.Name))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", obj.GetName(), c.req.Name))
}

// warnRepeatedOwners warns the client of owners that the object names twice; only one is kept.
func (c *call) warnRepeatedOwners(obj scheme.Object) {
	if warning := ownerreferences.WithoutRepeated(obj); warning != "" {
		c.warnings.Add(warning)
	}
}

// writer returns the field manager: the one that the request names, or that of its user agent.
func (c *call) writer(given string) string { return managedfields.Writer(given, c.r.UserAgent()) }

// written responds with the object that an update or a patch has written.
func (c *call) written(format response.Format, obj scheme.Object, made bool) error {
	c.trace(obj)
	code := http.StatusOK
	if made {
		code = http.StatusCreated
	}
	return c.send(code, format, obj)
}

// deleteOptions reads the options of a DELETE: from the body if there is one, else from the query.
func (c *call) deleteOptions() (metav1.DeleteOptions, error) {
	var opts metav1.DeleteOptions
	data, err := body.Read(c.w, c.r)
	if err != nil {
		return opts, err
	}
	if len(data) == 0 {
		err = c.options(c.r.URL.Query(), &opts)
	} else {
		err = c.decodeDeleteOptions(data, &opts)
	}
	if err != nil {
		return opts, err
	}
	if errs := metav1validation.ValidateDeleteOptions(&opts); len(errs) > 0 {
		return opts, apierrors.NewInvalid(metaKind("DeleteOptions"), "", errs)
	}
	return opts, c.dry(opts.DryRun)
}

// decodeDeleteOptions decodes the options in the version of any API group, since clients send them
// in that of the object or of their own type.
func (c *call) decodeDeleteOptions(body []byte, opts *metav1.DeleteOptions) error {
	info, err := c.bodyFormat(c.r, nil)
	if err != nil {
		return err
	}
	known, ok := runtime.SerializerInfoForMediaType(metascheme.Codecs.SupportedMediaTypes(), info.MediaType)
	if !ok {
		return response.UnsupportedMediaType([]string{runtime.ContentTypeJSON})
	}
	want := schema.GroupVersionKind{Version: "v1", Kind: "DeleteOptions"}
	obj, _, err := metascheme.Codecs.DecoderToVersion(known.Serializer, want.GroupVersion()).Decode(body, &want, opts)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if obj != runtime.Object(opts) {
		return apierrors.NewBadRequest("decoded object cannot be converted to DeleteOptions")
	}
	audit.From(c.ctx()).Request(opts)
	return nil
}

func (c *call) delete() error {
	format, err := c.negotiate()
	if err != nil {
		return err
	}
	opts, err := c.deleteOptions()
	if err != nil {
		return err
	}
	obj, gone, err := c.resource.Delete(c.ctx(), c.req.Namespace, c.req.Name, opts)
	if err != nil {
		return err
	}
	c.trace(obj)
	if gone && (!c.resource.ReturnsDeleted() || deletion.IgnoresReadErrors(opts)) {
		c.Encoder.Object(c.w, c.r, http.StatusOK, format, deleted(c.req.Kind, obj))
		return nil
	}
	code := http.StatusOK
	//nolint:staticcheck // Old clients still send orphanDependents.
	if !gone && opts.OrphanDependents != nil && !*opts.OrphanDependents {
		code = http.StatusAccepted // Kubernetes' response to a cascade that is requested in the old way.
	}
	return c.send(code, format, obj)
}

// deleted returns the response to the deletion of an object that is gone. Its resourceVersion,
// which Kubernetes omits, is the revision from which a cache shows the deletion.
func deleted(kind *scheme.Kind, obj scheme.Object) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		ListMeta: metav1.ListMeta{ResourceVersion: obj.GetResourceVersion()},
		Details:  &metav1.StatusDetails{Name: obj.GetName(), Group: kind.Group, Kind: kind.Resource, UID: obj.GetUID()},
	}
}

func (c *call) deleteCollection() error {
	format, err := c.negotiateAs(asPartialList)
	if err != nil {
		return err
	}
	var list metav1.ListOptions
	if err := c.options(c.r.URL.Query(), &list); err != nil {
		return err
	}
	opts, err := c.deleteOptions()
	if err != nil {
		return err
	}
	found, err := c.resource.DeleteCollection(c.ctx(), c.req.Namespace, opts, list)
	if err != nil {
		return err
	}
	c.trace(nil)
	return c.sendList(format, found)
}
