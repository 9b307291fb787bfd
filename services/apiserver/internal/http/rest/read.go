package rest

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

func (c *call) get() error {
	format, err := c.negotiate()
	if err != nil {
		return err
	}
	if err := refuseExport(c.r.URL.Query()); err != nil {
		return err
	}
	var opts metav1.GetOptions
	if err := c.options(c.r.URL.Query(), &opts); err != nil {
		return err
	}
	obj, err := c.resource.GetAt(c.ctx(), c.req.Namespace, c.req.Name, opts.ResourceVersion)
	if err != nil {
		return err
	}
	return c.send(http.StatusOK, format, obj)
}

// refuseExport returns an error if the query asks for an export, which Kubernetes supported until
// 1.20.
func refuseExport(query url.Values) error {
	given, wanted := query["export"], false
	if len(given) == 0 {
		return nil
	}
	if err := runtime.Convert_Slice_string_To_bool(&given, &wanted, nil); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the export parameter cannot be parsed: %v", err))
	}
	if wanted {
		return apierrors.NewBadRequest("the export parameter, deprecated since v1.14, is no longer supported")
	}
	return nil
}

func (c *call) list() error {
	format, err := c.negotiateAs(asPartialList)
	if err != nil {
		return err
	}
	var opts metav1.ListOptions
	if err := c.options(c.r.URL.Query(), &opts); err != nil {
		return err
	}
	listing, err := c.resource.Read(c.ctx(), c.req.Namespace, opts)
	if err != nil {
		return err
	}
	c.setHistory(listing.History)
	c.warnUnreadable(listing.Unreadable)
	listMeta := listing.Meta()
	if format.As.Kind == asTable {
		return c.sendTable(format, listing.Items, &listMeta)
	}
	streamed := response.List{
		Kind: c.req.Kind.ListKind(), Meta: listMeta, Len: len(listing.Items),
		Item: func(i int) (scheme.Object, []byte) { return listing.Items[i].Object, listing.Items[i].Plain },
	}
	if format.As.Kind == asPartialList {
		streamed.Kind, streamed.Partial = format.As, partialKind(format.As)
	}
	if err := c.Encoder.List(c.w, c.r, format, streamed); !errors.Is(err, response.ErrNotStreamed) {
		return err
	}
	list, err := c.resource.ListOf(listing)
	if err != nil {
		return err
	}
	return c.sendList(format, list)
}

// setHistory sets the header with the history to which the revisions in the response belong.
func (c *call) setHistory(of fabric.History) {
	if of != (fabric.History{}) {
		c.w.Header().Set(fabric.HistoryHeader, of.String())
	}
}

// maxUnreadable bounds the warnings of one response.
const maxUnreadable = 10

// warnUnreadable warns the client that a list omits objects which cannot be read.
func (c *call) warnUnreadable(keys []string) {
	var warnings []string
	for _, key := range keys[:min(len(keys), maxUnreadable)] {
		warnings = append(warnings, fmt.Sprintf("%s %q is stored in a form that cannot be read and is omitted", c.req.Kind.Resource, strings.TrimPrefix(key, "/")))
	}
	if more := len(keys) - len(warnings); more > 0 {
		warnings = append(warnings, fmt.Sprintf("%d more cannot be read and are omitted", more))
	}
	c.warnings.Add(warnings...)
}

// sendList responds with a list, in the form that the client wants.
func (c *call) sendList(format response.Format, list runtime.Object) error {
	switch format.As.Kind {
	case asTable:
		found, listMeta, err := items(list)
		if err != nil {
			return err
		}
		return c.sendTable(format, found, listMeta)
	case asPartialList:
		found, listMeta, err := items(list)
		if err != nil {
			return err
		}
		partials := &metav1.PartialObjectMetadataList{ListMeta: *listMeta, Items: make([]metav1.PartialObjectMetadata, len(found))}
		partials.SetGroupVersionKind(format.As)
		for i, item := range found {
			partials.Items[i] = *response.Partial(item.Object, partialKind(format.As))
		}
		list = partials
	default:
		// Items of a list carry no kind and version, since the list does. The items are the list's
		// own copies, so they may be changed.
		err := meta.EachListItem(list, func(item runtime.Object) error {
			if _, loose := item.(*unstructured.Unstructured); loose {
				return nil // As in Kubernetes, custom objects keep theirs.
			}
			item.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			return nil
		})
		if err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	c.Encoder.Object(c.w, c.r, http.StatusOK, format, list)
	return nil
}

// sendTable responds with the table of a list.
func (c *call) sendTable(format response.Format, items []feed.Item, listMeta *metav1.ListMeta) error {
	opts, err := c.tableOptions()
	if err != nil {
		return err
	}
	c.Encoder.Object(c.w, c.r, http.StatusOK, format, tableOf(c.resource, items, listMeta, opts, format.As))
	return nil
}

// items returns the objects and the metadata of a list.
func items(list runtime.Object) ([]feed.Item, *metav1.ListMeta, error) {
	access, err := meta.ListAccessor(list)
	if err != nil {
		return nil, nil, apierrors.NewInternalError(err)
	}
	listMeta := &metav1.ListMeta{
		ResourceVersion: access.GetResourceVersion(), Continue: access.GetContinue(), RemainingItemCount: access.GetRemainingItemCount(),
	}
	found := make([]feed.Item, 0, meta.LenList(list))
	err = meta.EachListItem(list, func(item runtime.Object) error {
		if obj, ok := item.(scheme.Object); ok {
			found = append(found, feed.Item{Object: obj})
		}
		return nil
	})
	if err != nil {
		return nil, nil, apierrors.NewInternalError(err)
	}
	return found, listMeta, nil
}
