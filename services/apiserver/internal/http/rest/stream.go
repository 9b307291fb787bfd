package rest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// stream is the response to a watch. It implements the registry's Sink.
type stream struct {
	call   *call
	format response.Format
	form   form
	table  *metav1.TableOptions
	out    output
	buffer []byte
}

// output sends the frames of a stream.
type output interface {
	send(frame frame) error
	flush() error
}

// frame is one encoded event.
type frame struct {
	// delimited is the event as it appears in a stream of bytes.
	delimited []byte
	// bare is the event alone.
	bare []byte
	// text reports that the event is text.
	text bool
}

// form identifies an encoding of an object, so that watches which want the same can share it.
type form struct {
	mediaType string
	as        schema.GroupVersionKind
	kind      schema.GroupVersionKind // the requested kind, which may not be the stored one
	include   metav1.IncludeObjectPolicy
	headers   bool
	// second is the Unix time of a table, since ages are part of it.
	second int64
}

func (c *call) newStream(format response.Format) (*stream, error) {
	s := &stream{call: c, format: format}
	s.form = form{mediaType: format.Info.MediaType, as: format.As, kind: c.req.Kind.GroupVersionKind}
	if format.As.Kind == asTable {
		opts, err := c.tableOptions()
		if err != nil {
			return nil, err
		}
		s.table = opts
		s.form.include, s.form.headers = opts.IncludeObject, !opts.NoHeaders
	}
	return s, nil
}

// Send encodes an event, or reuses its encoding for another watch, and sends it.
func (s *stream) Send(event registry.Event) error {
	form := s.form
	if s.table != nil {
		form.second = time.Now().Unix()
	}
	object, err := event.Encodings.Of(form, func() ([]byte, error) {
		obj, err := event.Object()
		if err != nil {
			return nil, err
		}
		return s.encode(obj)
	})
	if err != nil {
		return errors.Join(fmt.Errorf("encoding a watch event: %w", err), s.fail(err))
	}
	if s.table != nil {
		s.table.NoHeaders, s.form.headers = true, false // The columns are sent only once.
	}
	if err := s.out.send(s.frame(string(event.Type), object)); err != nil {
		return fmt.Errorf("sending a watch event: %w", err)
	}
	if s.call.Sent != nil {
		s.call.Sent(s.call.req.Kind)
	}
	return nil
}

// fail tells the client why the watch ends.
func (s *stream) fail(cause error) error {
	event := registry.Failure(cause)
	status, err := event.Object()
	if err != nil {
		return err
	}
	data, err := s.encode(status)
	if err != nil {
		return err
	}
	return errors.Join(s.out.send(s.frame(string(event.Type), data)), s.Flush())
}

// Flush sends buffered events to the client.
func (s *stream) Flush() error { return s.out.flush() }

func (s *stream) encode(obj runtime.Object) ([]byte, error) {
	var buffer bytes.Buffer
	if err := s.format.Info.Serializer.Encode(s.present(obj), &buffer); err != nil {
		return nil, err
	}
	return bytes.Clone(bytes.TrimRight(buffer.Bytes(), "\n")), nil
}

// frame wraps an encoded object in an event, which is valid until the next call. The fields of a
// WatchEvent are its type and a RawExtension, whose only field holds the object's bytes.
func (s *stream) frame(what string, object []byte) frame {
	if s.format.Info.EncodesAsText {
		s.buffer = append(s.buffer[:0], `{"type":"`...)
		s.buffer = append(s.buffer, what...)
		s.buffer = append(s.buffer, `","object":`...)
		s.buffer = append(s.buffer, object...)
		s.buffer = append(s.buffer, "}\n"...)
		return frame{delimited: s.buffer, bare: s.buffer, text: true}
	}
	const length = 4 // bytes before each event
	s.buffer = append(s.buffer[:0], make([]byte, length)...)
	s.buffer = protowire.AppendTag(s.buffer, 1, protowire.BytesType)
	s.buffer = protowire.AppendString(s.buffer, what)
	s.buffer = protowire.AppendTag(s.buffer, 2, protowire.BytesType)
	s.buffer = protowire.AppendVarint(s.buffer, uint64(protowire.SizeTag(1)+protowire.SizeBytes(len(object))))
	s.buffer = protowire.AppendTag(s.buffer, 1, protowire.BytesType)
	s.buffer = protowire.AppendBytes(s.buffer, object)
	binary.BigEndian.PutUint32(s.buffer, uint32(len(s.buffer)-length)) //nolint:gosec // An object is far smaller.
	return frame{delimited: s.buffer, bare: s.buffer[length:]}
}

// present returns an event's object in the form that the client wants.
func (s *stream) present(obj runtime.Object) runtime.Object {
	if status, ok := obj.(*metav1.Status); ok {
		status = status.DeepCopy()
		status.Kind, status.APIVersion = "Status", "v1"
		return status
	}
	typed, ok := obj.(scheme.Object)
	if !ok {
		return obj
	}
	switch s.format.As.Kind {
	case asTable:
		return tableOf(s.call.resource, []feed.Item{{Object: typed}}, nil, s.table, s.format.As)
	case asPartial:
		return response.Partial(typed, partialKind(s.format.As))
	}
	return obj
}
