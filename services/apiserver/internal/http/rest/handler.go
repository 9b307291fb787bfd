// Package rest serves the kinds of the table over HTTP, as Kubernetes does: paths and verbs,
// reading and writing of JSON, YAML and protobuf, tables, watches and subresources. The registry
// implements the verbs.
package rest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/patch"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest/warnings"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// Review answers a review: it fills in the status of obj, an object of a virtual kind that the
// client sent to namespace, and returns the response. It may change obj. Its errors are apierrors.
// The caller is authn.UserFrom(ctx).
type Review func(ctx context.Context, namespace string, obj scheme.Object) (scheme.Object, error)

// Observation returns the present objects of an observed kind that a read selects; it may return more. The
// read concerns a namespace, or all if it is empty, and one object unless name is empty. matches reports
// whether it selects an object with such metadata. Errors are apierrors.
type Observation func(ctx context.Context, namespace, name string, matches func(metav1.Object) bool) ([]scheme.Object, error)

// Config configures a Handler. All fields except Trace, Reviews, Observations and Sent are
// required.
type Config struct {
	Table    *scheme.Table
	Registry *registry.Registry
	Encoder  *response.Encoder
	// Fences checks the fences of writes.
	Fences Fences
	// Reviews answer the virtual kinds. A kind without one is not served: creating it fails with
	// 405.
	Reviews map[schema.GroupVersionKind]Review
	// Observations answer the observed kinds. A kind without one cannot be read: 405.
	Observations map[schema.GroupVersionKind]Observation
	// Parts serve the special subresources of the kinds, and the virtual kinds that are no reviews.
	// Each special subresource of a built-in kind must have one.
	Parts  map[Part]Serve
	Logger *slog.Logger
	Trace  *trace.Recorder
	// Watching registers a watch that begins. end is closed when the server wants the watch to end;
	// over must be called when it has ended.
	Watching func() (end <-chan struct{}, over func())
	// Sent is called for each watch event that was sent; it may be nil.
	Sent func(kind *scheme.Kind)
}

// Handler serves the kinds.
type Handler struct {
	Config
	table   *scheme.Table
	patcher *patch.Patcher
}

// New returns the handler. It is an error if the parts of cfg are not those that the built-in kinds
// need.
func New(cfg Config) (*Handler, error) {
	patcher, err := patch.New(cfg.Table)
	if err != nil {
		return nil, err
	}
	if err := checkParts(cfg.Table.Kinds(), cfg.Parts); err != nil {
		return nil, fmt.Errorf("creating the REST handler: %w", err)
	}
	return &Handler{Config: cfg, table: cfg.Table, patcher: patcher}, nil
}

// Request is what a request asks for.
type Request struct {
	Target
	// Verb is Kubernetes' name of the operation; empty if the target does not support it.
	Verb string
}

// Resolve parses what a request asks for. It returns false if its path is not part of the API.
func (h *Handler) Resolve(r *http.Request) (Request, bool) {
	target, ok := ParsePath(h.table, r.URL.Path)
	if !ok {
		return Request{}, false
	}
	req := Request{Target: target, Verb: target.Verb(r.Method, isTrue(r.URL.Query(), "watch"))}
	// As in Kubernetes, the path of a custom resource is not found if it has the wrong scope for the verb.
	return req, req.Verb != "" || !target.Kind.Custom || !target.everywhere()
}

// isTrue parses a boolean of the query as Kubernetes does: present means true, unless the value is
// "false" or "0".
func isTrue(query map[string][]string, name string) bool {
	values, ok := query[name]
	return ok && (len(values) == 0 || !strings.EqualFold(values[0], "false") && values[0] != "0")
}

// Serve serves a resolved request.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, req Request) {
	if req.Verb == "" {
		w.Header().Set("Allow", strings.Join(req.Methods(), ", "))
		h.Encoder.Error(w, r, response.MethodNotAllowed())
		return
	}
	warned := warnings.New(w.Header())
	if req.Kind != nil && req.Kind.Deprecated != "" {
		warned.Add(req.Kind.Deprecated)
	}
	r = r.WithContext(admission.WithWarnings(r.Context(), func(text string) { warned.Add(text) }))
	resource := h.Registry.Resource(req.Kind)
	if resource == nil && req.Kind.Custom { // removed since the path was resolved, or replaced
		if again, ok := h.Resolve(r); ok && again.Verb == req.Verb {
			req, resource = again, h.Registry.Resource(again.Kind)
		}
	}
	if resource == nil && !req.Kind.Virtual {
		h.Encoder.Error(w, r, response.NotFound())
		return
	}
	c := &call{Handler: h, w: w, r: r, req: req, resource: resource, warnings: warned, began: time.Now()}
	if err := c.serve(); err != nil {
		h.Encoder.Error(w, r, err)
	}
}

// call is one request in flight.
type call struct {
	*Handler
	w        http.ResponseWriter
	r        *http.Request
	req      Request
	resource *registry.Resource
	warnings *warnings.Header
	began    time.Time
	dryRun   bool // set if the body asks for a dry run
}

// serve serves the request, or returns the error to respond with.
func (c *call) serve() error {
	if err := c.fence(); err != nil {
		return err
	}
	if served, err := c.special(); served {
		return err
	}
	if c.req.Kind.Observed {
		return c.observe()
	}
	if c.req.Kind.Virtual {
		return c.review()
	}
	switch c.req.Verb {
	case "get":
		return c.get()
	case "list":
		return c.list()
	case "watch":
		return c.watch()
	case "create":
		return c.create()
	case "update":
		return c.update()
	case "patch":
		return c.patch()
	case "delete":
		return c.delete()
	}
	return c.deleteCollection()
}

func (c *call) ctx() context.Context { return c.r.Context() }

// negotiate returns the format of a response with one object.
func (c *call) negotiate() (response.Format, error) { return c.negotiateAs(asPartial) }

// negotiateAs returns the format of a response that can also be a Table, or of a given kind.
func (c *call) negotiateAs(partial string) (response.Format, error) {
	if c.req.Kind.Custom {
		return c.Encoder.NegotiateCustom(c.r, forms(partial)...)
	}
	return c.Encoder.Negotiate(c.r, forms(partial)...)
}

// negotiateWatch returns the format of the events of a watch.
func (c *call) negotiateWatch() (response.Format, error) {
	if c.req.Kind.Custom {
		return c.Encoder.NegotiateCustomStream(c.r, forms(asPartial)...)
	}
	return c.Encoder.NegotiateStream(c.r, forms(asPartial)...)
}

// send responds with one object, in the form that the client wants.
func (c *call) send(code int, format response.Format, obj runtime.Object) error {
	if typed, ok := obj.(scheme.Object); ok && format.As.Kind != "" {
		switch format.As.Kind {
		case asTable:
			opts, err := c.tableOptions()
			if err != nil {
				return err
			}
			obj = tableOf(c.resource, []feed.Item{{Object: typed}}, nil, opts, format.As)
		case asPartial:
			obj = response.Partial(typed, partialKind(format.As))
		}
	}
	c.Encoder.Object(c.w, c.r, code, format, obj)
	return nil
}

func (c *call) tableOptions() (*metav1.TableOptions, error) {
	opts := &metav1.TableOptions{}
	if err := c.table.Parameters().DecodeParameters(c.r.URL.Query(), metav1.SchemeGroupVersion, opts); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	switch opts.IncludeObject {
	case "", metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject:
		return opts, nil
	}
	return nil, apierrors.NewBadRequest("Unable to convert to Table as requested: " +
		field.Invalid(field.NewPath("includeObject"), opts.IncludeObject, "must be 'Metadata', 'Object', 'None', or empty").Error())
}

// trace records a successful write, unless it was a dry run.
func (c *call) trace(obj scheme.Object) {
	if c.dryRun || registry.IsDryRun(c.r.URL.Query()["dryRun"]) {
		return
	}
	hop := trace.Hop{
		Took: time.Since(c.began), Service: "apiserver", Step: trace.Request, Resource: c.req.Kind.Resource,
		Namespace: c.req.Namespace, Name: c.req.Name, Detail: c.req.Verb,
	}
	if c.req.Subresource != "" {
		hop.Detail += " " + c.req.Subresource
	}
	if user, ok := authn.UserFrom(c.ctx()); ok {
		hop.Detail += " by " + user.Name
	}
	if obj != nil {
		hop.Name, hop.UID = obj.GetName(), string(obj.GetUID())
		if revision, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64); err == nil {
			hop.Revision = revision
		}
	}
	c.Trace.Record(hop)
}

func metaKind(kind string) schema.GroupKind {
	return schema.GroupKind{Group: metav1.GroupName, Kind: kind}
}
