package clientgo

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/garboard/garboard/libs/informer"
)

// DefaultPatience is the default of Config.Patience.
const DefaultPatience = 5 * time.Second

// The reasons why a request went to the apiserver, in the metrics.
const (
	whyForbidden   = "not allowed"
	whyNotReady    = "not ready"
	whyNotRunning  = "not running"
	whyTooMany     = "too many views"
	whyPaged       = "paged"
	whyUnknownPast = "unknown past"
)

// transport answers what it can, and passes the rest to next.
type transport struct {
	adapter *Adapter
	next    http.RoundTripper
	access  *access
}

var _ utilnet.RoundTripperWrapper = (*transport)(nil)

// WrappedRoundTripper returns the transport to the apiserver.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip answers a request.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	r := t.adapter.parse(req, t.next)
	if r == nil {
		return t.next.RoundTrip(req)
	}
	answer, why, err := t.answer(req, r)
	switch {
	case err != nil:
		return nil, err
	case answer == nil:
		t.adapter.metrics.answered(r, wayHTTP, why)
		return t.next.RoundTrip(req)
	}
	t.adapter.metrics.answered(r, wayBus, "")
	if req.Body != nil {
		_ = req.Body.Close() // As a RoundTripper must.
	}
	return answer, nil
}

// answer answers a request, or returns the reason why it cannot.
func (t *transport) answer(req *http.Request, r *request) (answer *http.Response, why string, err error) {
	v, release, why := t.adapter.acquire(r.kind, r.selected.view)
	if v == nil {
		return nil, why, nil
	}
	kept := false
	defer func() {
		if !kept {
			release()
		}
	}()
	if !t.access.may(req, r) {
		return nil, whyForbidden, nil
	}
	if err := v.await(req.Context(), r, t.adapter.patience); err != nil {
		if req.Context().Err() != nil {
			return nil, "", fmt.Errorf("waiting for %s: %w", r.kind.GroupResource(), req.Context().Err())
		}
		t.adapter.logger.Debug("a view is not ready; asking the apiserver", "resource", r.kind.GroupResource(), "verb", r.verb(), "err", err)
		return nil, whyNotReady, nil
	}
	if !r.watch {
		answer, why, err = list(v, r)
	} else if body, found := newBody(req.Context(), v, r, release); !found {
		why = whyUnknownPast
	} else {
		kept = true
		contentType := r.format.info.MediaType
		if contentType != runtime.ContentTypeJSON {
			contentType += ";stream=watch"
		}
		answer = response(contentType, -1, body)
	}
	if answer != nil {
		answer.Request = req
	}
	return answer, why, err
}

func response(contentType string, length int64, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {contentType}, "Cache-Control": {"no-cache, private"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}},
		ContentLength: length, Body: body,
	}
}

// list answers with the content of the view.
func list(v *view, r *request) (*http.Response, string, error) {
	read := v.read(&r.selected)
	if r.limit > 0 && int64(len(read.objects)) > r.limit {
		return nil, whyPaged, nil
	}
	var buffer bytes.Buffer
	if err := r.encodeList(&buffer, read); err != nil {
		return nil, "", fmt.Errorf("listing %s: %w", r.kind.GroupResource(), err)
	}
	return response(r.format.info.MediaType, int64(buffer.Len()), io.NopCloser(&buffer)), "", nil
}

// encodeList writes a list in the format that the client wants.
func (r *request) encodeList(to io.Writer, read reading) error {
	version := strconv.FormatInt(read.revision, 10)
	if r.format.partial {
		list := &metav1.PartialObjectMetadataList{Items: make([]metav1.PartialObjectMetadata, len(read.objects))}
		list.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList"))
		list.ResourceVersion = version
		for i, obj := range read.objects {
			list.Items[i] = *partial(obj)
		}
		return r.format.info.Serializer.Encode(list, to)
	}
	list := r.kind.NewList()
	items := make([]runtime.Object, len(read.objects))
	for i, obj := range read.objects {
		items[i] = obj
	}
	if err := meta.SetList(list, items); err != nil {
		return err
	}
	// As at the apiserver, the list has the kind of its items; the items themselves have none, unless they are
	// custom resources.
	if !r.kind.Custom {
		err := meta.EachListItem(list, func(item runtime.Object) error {
			item.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			return nil
		})
		if err != nil {
			return err
		}
	}
	access, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	access.SetResourceVersion(version)
	return r.format.info.Serializer.Encode(list, to)
}

// partial returns an object's metadata.
func partial(obj informer.Object) *metav1.PartialObjectMetadata {
	p := meta.AsPartialObjectMetadata(obj)
	p.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	return p
}
