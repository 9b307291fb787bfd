package rest

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/answer"
	"github.com/garboard/garboard/services/apiserver/internal/columns"
)

func (c *call) get() error {
	format, err := c.negotiate()
	if err != nil {
		return err
	}
	var opts metav1.GetOptions
	if err := c.options(c.r.URL.Query(), &opts); err != nil {
		return err
	}
	if err := checkVersion(opts.ResourceVersion); err != nil {
		return err
	}
	obj, err := c.resource.Get(c.ctx(), c.req.Namespace, c.req.Name)
	if err != nil {
		return err
	}
	return c.send(http.StatusOK, format, obj)
}

func (c *call) list() error {
	format, err := c.Answers.Negotiate(c.r, asTable, asPartialList)
	if err != nil {
		return err
	}
	var opts metav1.ListOptions
	if err := c.options(c.r.URL.Query(), &opts); err != nil {
		return err
	}
	list, err := c.resource.List(c.ctx(), c.req.Namespace, opts)
	if err != nil {
		return err
	}
	return c.sendList(format, list)
}

// sendList answers with a list, in the form that the client wants.
func (c *call) sendList(format answer.Format, list runtime.Object) error {
	switch format.As {
	case asTable:
		opts, err := c.tableOptions()
		if err != nil {
			return err
		}
		objs, listMeta, err := items(list)
		if err != nil {
			return err
		}
		list = c.resource.Table(objs, listMeta, opts)
	case asPartialList:
		objs, listMeta, err := items(list)
		if err != nil {
			return err
		}
		partials := &metav1.PartialObjectMetadataList{ListMeta: *listMeta, Items: make([]metav1.PartialObjectMetadata, len(objs))}
		partials.SetGroupVersionKind(asPartialList)
		for i, obj := range objs {
			partials.Items[i] = *columns.Partial(obj)
		}
		list = partials
	default:
		// The items of a list do not say what they are, since the list does. They are copies of
		// the list's own.
		err := meta.EachListItem(list, func(item runtime.Object) error {
			item.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			return nil
		})
		if err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	c.Answers.Object(c.w, c.r, http.StatusOK, format, list)
	return nil
}

// items gives the objects and the metadata of a list.
func items(list runtime.Object) ([]scheme.Object, *metav1.ListMeta, error) {
	access, err := meta.ListAccessor(list)
	if err != nil {
		return nil, nil, apierrors.NewInternalError(err)
	}
	listMeta := &metav1.ListMeta{
		ResourceVersion: access.GetResourceVersion(), Continue: access.GetContinue(), RemainingItemCount: access.GetRemainingItemCount(),
	}
	objs := make([]scheme.Object, 0, meta.LenList(list))
	err = meta.EachListItem(list, func(item runtime.Object) error {
		if obj, ok := item.(scheme.Object); ok {
			objs = append(objs, obj)
		}
		return nil
	})
	if err != nil {
		return nil, nil, apierrors.NewInternalError(err)
	}
	return objs, listMeta, nil
}

func partial(obj scheme.Object) runtime.Object { return columns.Partial(obj) }
