package rest

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/services/apiserver/internal/http/response"
)

const (
	// minWatch is the shortest time that a watch runs if the client sets no timeout; the actual
	// time is random, up to twice as long, as in Kubernetes (--min-request-timeout).
	minWatch = 30 * time.Minute
	// writePatience is how long sending one event may take before the server gives up on the
	// client.
	writePatience = 30 * time.Second
)

func (c *call) watch() error {
	format, err := c.negotiateWatch()
	if err != nil {
		return err
	}
	var opts metav1.ListOptions
	if err := c.options(c.r.URL.Query(), &opts); err != nil {
		return err
	}
	if c.req.Name != "" {
		if err := c.watchOne(&opts); err != nil {
			return err
		}
	}
	stream, err := c.newStream(format)
	if err != nil {
		return err
	}
	timeout := minWatch + rand.N(minWatch)
	if opts.TimeoutSeconds != nil && *opts.TimeoutSeconds != 0 { // A watch with a negative timeout ends at once.
		timeout = time.Duration(*opts.TimeoutSeconds) * time.Second
	}
	ctx, cancel := context.WithTimeout(c.ctx(), timeout)
	defer cancel()
	opening := ctx
	if timeout < 0 {
		opening = c.ctx() // The watch still begins before it ends.
	}
	watching, err := c.resource.Watch(opening, c.req.Namespace, opts)
	if err != nil {
		return err
	}
	defer watching.Stop()
	c.setHistory(watching.History())
	if isWebSocket(c.r) {
		closed, end, err := stream.upgrade(ctx)
		if err != nil {
			return nil //nolint:nilerr // The handshake has already responded.
		}
		defer end()
		ctx = closed
	} else {
		stream.begin(opts.SendInitialEvents != nil && *opts.SendInitialEvents)
		defer func() { _ = stream.Flush() }() // If the client is gone, nobody misses it.
	}
	drained, over := c.Watching()
	defer over()
	if err := watching.Run(ctx, drained, stream); err != nil {
		c.Logger.DebugContext(ctx, "a watch ended", "path", c.r.URL.Path, "err", err)
	}
	return nil
}

// watchOne narrows a watch on a deprecated path with a name to the object of that name.
func (c *call) watchOne(opts *metav1.ListOptions) error {
	name := fields.OneTermEqualSelector("metadata.name", c.req.Name)
	if opts.FieldSelector != "" {
		selector, err := fields.ParseSelector(opts.FieldSelector)
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		if selected, ok := selector.RequiresExactMatch("metadata.name"); !ok || selected != c.req.Name {
			return apierrors.NewBadRequest("fieldSelector metadata.name doesn't match requested name")
		}
		return nil
	}
	opts.FieldSelector = name.String()
	return nil
}

// begin sends the header, so that the client knows that the watch has begun. A watch that begins with all objects is
// compressed if the client accepts that.
func (s *stream) begin(all bool) {
	out := &chunks{body: s.call.Encoder.Stream(s.call.w, s.call.r, s.contentType(), all)}
	control := http.NewResponseController(s.call.w)
	// A client that doesn't read must not hold the watch for ever. Not every connection supports
	// deadlines.
	out.watchdog = time.AfterFunc(writePatience, func() { _ = control.SetWriteDeadline(time.Unix(1, 0)) })
	out.watchdog.Stop()
	s.out = out
}

func (s *stream) contentType() string {
	if s.format.Info.MediaType == runtime.ContentTypeJSON {
		return runtime.ContentTypeJSON
	}
	return s.format.Info.MediaType + ";stream=watch"
}

// chunks sends frames over plain HTTP.
type chunks struct {
	body     *response.Stream
	watchdog *time.Timer
}

func (c *chunks) send(frame frame) error {
	c.watchdog.Reset(writePatience)
	defer c.watchdog.Stop()
	_, err := c.body.Write(frame.delimited)
	return err
}

func (c *chunks) flush() error {
	c.watchdog.Reset(writePatience)
	defer c.watchdog.Stop()
	return c.body.Flush()
}
