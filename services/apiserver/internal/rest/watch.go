package rest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/answer"
)

const (
	// minWatch is the least time for which a watch runs when the client does not say; it is
	// spread over twice as long, as in Kubernetes (--min-request-timeout).
	minWatch = 30 * time.Minute
	// writePatience is how long one event may take to be sent before the client is given up.
	writePatience = 30 * time.Second
)

func (c *call) watch() error {
	format, err := c.Answers.NegotiateStream(c.r, asTable, asPartial)
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
	if opts.TimeoutSeconds != nil && *opts.TimeoutSeconds > 0 {
		timeout = time.Duration(*opts.TimeoutSeconds) * time.Second
	}
	ctx, cancel := context.WithTimeout(c.ctx(), timeout)
	defer cancel()
	watching, err := c.resource.Watch(ctx, c.req.Namespace, opts)
	if err != nil {
		return err
	}
	defer watching.Stop()
	stream.begin()
	for {
		select {
		case <-c.Draining:
			return nil
		case <-ctx.Done():
			return nil
		case event, ok := <-watching.ResultChan():
			if !ok {
				return nil
			}
			// What came meanwhile is sent in the same flush.
			if err := stream.send(event, len(watching.ResultChan()) > 0); err != nil {
				c.Logger.DebugContext(ctx, "a watch ended", "path", c.r.URL.Path, "err", err)
				return nil
			}
			if c.Sent != nil {
				c.Sent(c.req.Kind)
			}
		}
	}
}

// watchOne narrows a watch by the deprecated path with a name to the object of that name.
func (c *call) watchOne(opts *metav1.ListOptions) error {
	name := fields.OneTermEqualSelector("metadata.name", c.req.Name)
	if opts.FieldSelector != "" {
		selector, err := fields.ParseSelector(opts.FieldSelector)
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		name = fields.AndSelectors(selector, name)
	}
	opts.FieldSelector = name.String()
	return nil
}

// stream is the answer to a watch.
type stream struct {
	call    *call
	format  answer.Format
	control *http.ResponseController
	frames  io.Writer
	table   *metav1.TableOptions
	object  bytes.Buffer
	event   bytes.Buffer
}

func (c *call) newStream(format answer.Format) (*stream, error) {
	s := &stream{
		call: c, format: format, control: http.NewResponseController(c.w),
		frames: format.Info.StreamSerializer.NewFrameWriter(c.w),
	}
	if format.As == asTable {
		opts, err := c.tableOptions()
		if err != nil {
			return nil, err
		}
		s.table = opts
	}
	return s, nil
}

// begin sends the header, so that the client knows that the watch has begun.
func (s *stream) begin() {
	contentType := s.format.Info.MediaType
	if contentType != runtime.ContentTypeJSON {
		contentType += ";stream=watch"
	}
	header := s.call.w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Cache-Control", "no-cache, private")
	s.call.w.WriteHeader(http.StatusOK)
	s.flush()
}

func (s *stream) flush() { _ = s.control.Flush() } // A client that is gone fails the next write.

// send writes one event. more says that another follows at once.
func (s *stream) send(event watch.Event, more bool) error {
	obj := s.present(event)
	s.object.Reset()
	if err := s.format.Info.Serializer.Encode(obj, &s.object); err != nil {
		return fmt.Errorf("encoding a watch event: %w", err)
	}
	s.event.Reset()
	if s.format.Info.EncodesAsText {
		s.event.WriteString(`{"type":"`)
		s.event.WriteString(string(event.Type))
		s.event.WriteString(`","object":`)
		s.event.Write(bytes.TrimRight(s.object.Bytes(), "\n"))
		s.event.WriteString("}\n")
	} else {
		wrapped := &metav1.WatchEvent{Type: string(event.Type), Object: runtime.RawExtension{Raw: s.object.Bytes()}}
		if err := s.format.Info.StreamSerializer.Encode(wrapped, &s.event); err != nil {
			return fmt.Errorf("encoding a watch event: %w", err)
		}
	}
	// A client that does not read must not hold the watch for ever. Not every connection can
	// have a deadline.
	_ = s.control.SetWriteDeadline(time.Now().Add(writePatience))
	if _, err := s.frames.Write(s.event.Bytes()); err != nil {
		return fmt.Errorf("sending a watch event: %w", err)
	}
	if !more {
		s.flush()
	}
	_ = s.control.SetWriteDeadline(time.Time{})
	return nil
}

// present gives an event's object in the form that the client wants.
func (s *stream) present(event watch.Event) runtime.Object {
	if status, ok := event.Object.(*metav1.Status); ok {
		status = status.DeepCopy()
		status.Kind, status.APIVersion = "Status", "v1"
		return status
	}
	obj, ok := event.Object.(scheme.Object)
	if !ok {
		return event.Object
	}
	switch s.format.As {
	case asTable:
		table := s.call.resource.Table([]scheme.Object{obj}, nil, s.table)
		s.table.NoHeaders = true // The columns come once.
		return table
	case asPartial:
		return partial(obj)
	}
	return obj
}
