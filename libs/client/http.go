package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/scheme/envelope"
	"github.com/garboard/garboard/libs/trace"
)

// maxDocument bounds a document, in bytes. That of all of OpenAPI v2 has a tenth of it.
const maxDocument = 32 << 20

// HTTP is a client of an apiserver over HTTP(S).
type HTTP struct {
	table  *scheme.Table
	config rest.Config

	mu     sync.Mutex
	groups map[served]*rest.RESTClient
}

// New returns a client of the apiserver that config names. It sends and accepts Kubernetes protobuf
// unless config sets another content type. It makes no call.
func New(config *rest.Config, table *scheme.Table) (*HTTP, error) {
	if config == nil || config.Host == "" {
		return nil, fmt.Errorf("creating an API client: no apiserver address is set")
	}
	c := rest.CopyConfig(config)
	if c.ContentType == "" {
		c.ContentType = runtime.ContentTypeProtobuf
		c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	c.NegotiatedSerializer = table.Codecs().WithoutConversion()
	if c.QPS == 0 {
		c.QPS = -1 // The apiserver limits its clients; a second limit here would only hide that.
	}
	if c.UserAgent == "" {
		c.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	c.Wrap(func(rt http.RoundTripper) http.RoundTripper { return historian{rt} })
	return &HTTP{table: table, config: *c, groups: map[served]*rest.RESTClient{}}, nil
}

// Table returns the kinds that the client knows.
func (c *HTTP) Table() *scheme.Table { return c.table }

// Do executes one call. A write carries the fence of ctx; if the apiserver refuses the write
// because of the fence, Do notifies the owner of the fence.
func (c *HTTP) Do(ctx context.Context, call Call, into runtime.Object) error {
	req, err := c.request(ctx, call)
	if err != nil {
		return err
	}
	err = done(req.Do(noting(ctx, call.History)), call, into)
	fence.Refused(ctx, err)
	return err
}

func done(res rest.Result, call Call, into runtime.Object) error {
	if call.Revision != nil {
		*call.Revision = 0
	}
	switch {
	case into != nil:
		if err := res.Into(into); err != nil {
			return err
		}
		note(call.Revision, into)
		return nil
	case call.Revision != nil:
		if data, err := res.Raw(); err == nil {
			if version, found := envelope.ResourceVersion(data); found {
				noteVersion(call.Revision, version)
				return nil // Nobody reads the rest, which may be all that deletecollection has deleted.
			}
		}
		answer, err := res.Get()
		if err != nil {
			return err
		}
		note(call.Revision, answer)
		return nil
	default:
		return res.Error()
	}
}

// note stores the revision of a response: an object, or the status of a deletion.
func note(to *int64, answer runtime.Object) {
	if to == nil {
		return
	}
	about, err := meta.CommonAccessor(answer)
	if err != nil {
		return
	}
	noteVersion(to, about.GetResourceVersion())
}

func noteVersion(to *int64, version string) {
	if revision, err := strconv.ParseInt(version, 10, 64); err == nil {
		*to = revision
	}
}

// Stream executes one call whose response is a stream of bytes.
func (c *HTTP) Stream(ctx context.Context, call Call) (io.ReadCloser, error) {
	req, err := c.request(ctx, call)
	if err != nil {
		return nil, err
	}
	return req.Stream(ctx)
}

// Watch opens a watch.
func (c *HTTP) Watch(ctx context.Context, call Call) (watch.Interface, error) {
	req, err := c.request(ctx, call)
	if err != nil {
		return nil, err
	}
	return req.Watch(noting(ctx, call.History))
}

// Document reads the JSON document at a path.
func (c *HTTP) Document(ctx context.Context, path string) ([]byte, error) {
	group, err := c.group(served{GroupVersion: corev1.SchemeGroupVersion}) // Any client will do.
	if err != nil {
		return nil, err
	}
	// Another server may have written it.
	body, err := group.Get().AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(io.LimitReader(body, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(data) > maxDocument {
		return nil, fmt.Errorf("reading %s: it is larger than %d bytes", path, maxDocument)
	}
	return data, nil
}

func (c *HTTP) request(ctx context.Context, call Call) (*rest.Request, error) {
	group, err := c.group(served{call.Kind.GroupVersion(), call.Kind.Custom})
	if err != nil {
		return nil, err
	}
	var req *rest.Request
	switch call.Verb {
	case "get", "list", "watch":
		req = group.Get()
	case "create":
		req = group.Post()
	case "update":
		req = group.Put()
	case "patch":
		req = group.Patch(call.PatchType)
	case "delete", "deletecollection":
		req = group.Delete()
	default:
		return nil, fmt.Errorf("calling the API: %q is not a verb", call.Verb)
	}
	req = req.NamespaceIfScoped(call.Namespace, call.Kind.Namespaced && call.Namespace != "").Resource(call.Kind.Resource)
	if call.Name != "" {
		req = req.Name(call.Name)
	}
	if call.Subresource != "" {
		req = req.SubResource(call.Subresource)
	}
	switch {
	case call.Verb == "delete":
		// DeleteOptions are sent as the body, as kubectl sends them.
		if opts, ok := call.Options.(*metav1.DeleteOptions); ok {
			req = req.Body(opts)
		}
	case call.Options != nil:
		gv := call.Kind.GroupVersion()
		if call.Kind.Custom {
			gv = metav1.Unversioned // The group of a custom kind has no options of its own.
		}
		req = req.SpecificallyVersionedParams(call.Options, c.table.Parameters(), gv)
	}
	if call.Verb == "patch" {
		req = req.Body(call.Patch)
	} else if call.Body != nil {
		req = req.Body(call.Body)
	}
	if f, ok := fence.From(ctx); ok && call.Writes() {
		req = req.SetHeader(fence.Header, f.String())
	}
	if header := trace.HeaderOf(ctx); header != "" {
		req = req.SetHeader(trace.Header, header)
	}
	return req, nil
}

// served is what a REST client serves: a group and version, of built-in or of custom kinds.
type served struct {
	schema.GroupVersion
	custom bool
}

func (c *HTTP) group(of served) (*rest.RESTClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if client := c.groups[of]; client != nil {
		return client, nil
	}
	config, gv := rest.CopyConfig(&c.config), of.GroupVersion
	if of.custom {
		config = dynamic.ConfigFor(config) // JSON, without Go types
	}
	config.GroupVersion = &gv
	config.APIPath = "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating an API client for %s: %w", gv, err)
	}
	c.groups[of] = client
	return client, nil
}
