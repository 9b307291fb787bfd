package response

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
)

// List is a list that is written item by item, so that it is never in memory as a whole. The output
// is what the serializers would write for the kind's list.
type List struct {
	// Kind is the list's own: PodList.
	Kind schema.GroupVersionKind
	// Partial is the kind of the items if they are the metadata alone of objects, PartialObjectMetadata; empty for
	// objects as they are.
	Partial schema.GroupVersionKind
	// Meta is the list's metadata.
	Meta metav1.ListMeta
	// Len is the number of items.
	Len int
	// Item returns one item: the object and, if it is at hand, its stored form without the
	// resourceVersion: a protobuf message, or JSON for a custom kind. Both are shared and must not be
	// changed.
	Item func(i int) (obj scheme.Object, plain []byte)
}

// ErrNotStreamed reports that a list cannot be written item by item in the format.
var ErrNotStreamed = errors.New("lists of this format are written as a whole")

// List writes a list. It writes nothing and returns ErrNotStreamed if the format is neither
// unindented JSON nor protobuf, or if the audit log records the list. Any other error is not the
// client's fault. It is returned before anything was sent; after that, List cuts the connection.
func (e *Encoder) List(w http.ResponseWriter, r *http.Request, format Format, list List) error {
	switch {
	case audit.From(r.Context()).WantsResponse():
		return ErrNotStreamed // The audit log records it as a whole.
	case format.Info.MediaType == runtime.ContentTypeProtobuf:
		return e.protobufList(w, r, list)
	case format.Info.MediaType == runtime.ContentTypeJSON && !format.Pretty:
		return e.jsonList(w, r, format, list)
	}
	return ErrNotStreamed
}

func (e *Encoder) jsonList(w http.ResponseWriter, r *http.Request, format Format, list List) error {
	listMeta, err := json.Marshal(list.Meta)
	if err != nil {
		return fmt.Errorf("encoding a list's metadata: %w", err)
	}
	b := e.newBody(w, r, http.StatusOK, runtime.ContentTypeJSON, -1)
	var item bytes.Buffer
	fmt.Fprintf(&item, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":[`, list.Kind.Kind, list.Kind.GroupVersion().String(), listMeta)
	var bare bareCopy
	for i := range list.Len {
		if i > 0 {
			item.WriteByte(',')
		}
		if err := appendItem(&item, format, &bare, list, i); err != nil {
			return b.fail(fmt.Errorf("encoding an item of a list: %w", err))
		}
		if _, err := b.Write(item.Bytes()); err != nil {
			e.gone(r, err)
			b.release()
			return nil
		}
		item.Reset()
	}
	item.WriteString("]}\n")
	_, err = b.Write(item.Bytes())
	e.gone(r, errors.Join(err, b.end()))
	return nil
}

// appendItem writes an item in JSON. A custom object whose stored bytes are at hand is not encoded again.
func appendItem(to *bytes.Buffer, format Format, bare *bareCopy, list List, i int) error {
	obj, plain := list.Item(i)
	if !list.Partial.Empty() {
		if data, ok := PartialJSON(to.AvailableBuffer(), obj, plain, list.Partial); ok {
			_, err := to.Write(data)
			return err
		}
		return encodeItem(to, format, Partial(obj, list.Partial))
	}
	if _, loose := obj.(*unstructured.Unstructured); loose && plain != nil {
		if place, ok := versionIn(plain); ok {
			_, err := to.Write(place.appendVersioned(to.AvailableBuffer(), plain, obj.GetResourceVersion()))
			return err
		}
	}
	return encodeItem(to, format, bare.of(obj))
}

func encodeItem(to *bytes.Buffer, format Format, obj runtime.Object) error {
	if err := format.Info.Serializer.Encode(obj, to); err != nil {
		return err
	}
	to.Truncate(to.Len() - 1) // the serializer ends with a newline
	return nil
}

// fail ends a body that cannot be completed.
func (b *body) fail(err error) error {
	begun := b.begun
	b.release()
	if begun {
		b.encoder.log.ErrorContext(b.r.Context(), "a response was cut off", "path", b.r.URL.Path, "err", err)
		panic(http.ErrAbortHandler) // A partial response must not look complete to the client.
	}
	return err
}

// bareCopy returns shallow copies of objects without kind and version, as they are in lists. It
// reuses one copy for all objects of a type.
type bareCopy struct {
	object scheme.Object
	value  reflect.Value
}

func (c *bareCopy) of(obj scheme.Object) scheme.Object {
	if _, loose := obj.(*unstructured.Unstructured); loose {
		return obj // In lists, too, custom objects have kind and version, as in Kubernetes.
	}
	value := reflect.ValueOf(obj)
	if value.Kind() != reflect.Pointer || value.Elem().Kind() != reflect.Struct {
		return obj
	}
	if c.object == nil || c.value.Type() != value.Type() {
		c.value = reflect.New(value.Type().Elem())
		made, ok := reflect.TypeAssert[scheme.Object](c.value)
		if !ok {
			return obj
		}
		c.object = made
	}
	c.value.Elem().Set(value.Elem())
	c.object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return c.object
}
