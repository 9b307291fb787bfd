package scheme

import (
	"bytes"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme/envelope"
	"github.com/garboard/garboard/libs/scheme/loosejson"
)

// EncodeStorage returns the bytes of obj in etcd and in watch messages, exactly as kube-apiserver
// writes them: Kubernetes' protobuf envelope ("k8s\x00", then the kind, then the object), or JSON for
// a custom kind and a few others. The storage kind replaces the object's own group, version and kind.
func (t *Table) EncodeStorage(kind *Kind, obj Object) ([]byte, error) {
	old := obj.GetObjectKind().GroupVersionKind()
	if old != kind.Storage {
		copied, ok := obj.DeepCopyObject().(Object)
		if !ok {
			return nil, fmt.Errorf("encoding a %s: the copy of %T is no API object", kind.Storage.Kind, obj)
		}
		obj = copied
		obj.GetObjectKind().SetGroupVersionKind(kind.Storage)
	}
	if kind.etcd != nil {
		data, err := kind.etcd.encode(obj)
		if err != nil {
			return nil, fmt.Errorf("encoding %s %s: %w", kind.Storage.Kind, obj.GetName(), err)
		}
		return data, nil
	}
	if u, ok := obj.(*unstructured.Unstructured); ok && kind.Custom {
		data, err := loosejson.Append(nil, u.Object)
		if err != nil {
			return nil, fmt.Errorf("encoding %s %s/%s: %w", kind.Storage.Kind, obj.GetNamespace(), obj.GetName(), err)
		}
		return append(data, '\n'), nil // As Kubernetes' encoder ends it.
	}
	var buf bytes.Buffer
	if err := t.protobuf.Encode(obj, &buf); err != nil {
		return nil, fmt.Errorf("encoding %s %s/%s: %w", kind.Storage.Kind, obj.GetNamespace(), obj.GetName(), err)
	}
	return buf.Bytes(), nil
}

// DecodeStorage decodes what EncodeStorage encoded. It also accepts JSON, as which Kubernetes
// stores some kinds. The result has the storage kind set, or that of another version in which the
// kind is stored too; its resourceVersion is as stored, that is, empty.
func (t *Table) DecodeStorage(kind *Kind, data []byte) (Object, error) {
	if obj := kind.decodePlain(data); obj != nil {
		return obj, nil
	}
	decoder, into := t.codecs.UniversalDeserializer(), runtime.Object(nil)
	if kind.Custom {
		// Without an object to decode into, one that has a field "items" would be taken for a list.
		decoder, into = unstructured.UnstructuredJSONScheme, &unstructured.Unstructured{}
	}
	obj, gvk, err := decoder.Decode(data, nil, into)
	if kind.etcd != nil && kind.etcd.decode != nil && (err != nil || *gvk != kind.Storage) {
		gvk = &kind.Storage
		obj, err = kind.etcd.decode(data)
	}
	if err != nil {
		return nil, fmt.Errorf("decoding a stored %s of %d bytes: %w", kind.Storage.Kind, len(data), err)
	}
	if *gvk != kind.Storage && !kind.storedAs(*gvk) {
		return nil, fmt.Errorf("decoding a stored %s: found a %s", kind.Storage, gvk)
	}
	typed, ok := obj.(Object)
	if !ok {
		return nil, fmt.Errorf("decoding a stored %s: %T has no metadata", kind.Storage.Kind, obj)
	}
	typed.GetObjectKind().SetGroupVersionKind(*gvk)
	return typed, nil
}

// Complete calls fill with obj, which was decoded from data, and returns the encoding of the
// result. It returns the error of fill. If fill changed nothing, that is data itself, so that fields unknown to this program are
// kept. No other goroutine may use obj meanwhile. Its resourceVersion is kept, but is not part of
// the encoding.
func (t *Table) Complete(kind *Kind, data []byte, obj Object, fill func(Object) error) ([]byte, error) {
	version := obj.GetResourceVersion()
	obj.SetResourceVersion("")
	defer obj.SetResourceVersion(version)
	encodable, ok := obj.(message)
	if kind.Custom || !ok {
		return t.completeText(kind, data, obj, fill)
	}
	was := Plain(data, obj)
	if was == nil {
		was = make([]byte, encodable.Size())
		if _, err := encodable.MarshalToSizedBuffer(was); err != nil {
			return nil, fmt.Errorf("encoding a %s: %w", kind.Storage.Kind, err)
		}
	}
	if err := fill(obj); err != nil {
		return nil, err
	}
	size := encodable.Size()
	if size != len(was) {
		return t.EncodeStorage(kind, obj)
	}
	scratch, ok := t.scratch.Get().(*[]byte)
	if !ok {
		scratch = new([]byte)
	}
	defer t.scratch.Put(scratch)
	*scratch = slices.Grow((*scratch)[:0], size)[:size]
	if _, err := encodable.MarshalToSizedBuffer(*scratch); err != nil {
		return nil, fmt.Errorf("encoding a %s: %w", kind.Storage.Kind, err)
	}
	if bytes.Equal(was, *scratch) {
		return data, nil
	}
	return t.EncodeStorage(kind, obj)
}

// completeText is Complete for what has no protobuf message. An object of a custom kind is encoded again,
// which costs less than to compare it with a copy; its type has no unknown fields that this would lose.
func (t *Table) completeText(kind *Kind, data []byte, obj Object, fill func(Object) error) ([]byte, error) {
	var was runtime.Object
	if !kind.Custom {
		was = obj.DeepCopyObject()
	}
	if err := fill(obj); err != nil {
		return nil, err
	}
	if was != nil && equality.Semantic.DeepEqual(was, obj) {
		return data, nil
	}
	completed, err := t.EncodeStorage(kind, obj)
	if err == nil && bytes.Equal(completed, data) {
		return data, nil // The caller has these bytes already.
	}
	return completed, err
}

// storedAs reports whether etcd may hold objects of a custom kind as another version.
func (k *Kind) storedAs(gvk schema.GroupVersionKind) bool {
	return k.Custom && gvk.GroupKind() == k.Storage.GroupKind() && slices.Contains(k.StoredVersions, gvk.Version)
}

// message is what all API types with a Go type implement.
type message interface {
	Size() int
	MarshalToSizedBuffer(data []byte) (int, error)
	Unmarshal(data []byte) error
}

// Plain returns the protobuf message within data, from which obj was decoded, if encoding obj
// without its resourceVersion would give as many bytes. For an object of a custom kind it returns data,
// without the final newline. Otherwise it returns nil, as for other objects that are stored as JSON or
// hold fields unknown to this program. No other goroutine may use obj meanwhile.
func Plain(data []byte, obj Object) []byte {
	if _, loose := obj.(*unstructured.Unstructured); loose {
		return bytes.TrimSuffix(data, []byte{'\n'})
	}
	sized, ok := obj.(interface{ Size() int })
	if !ok {
		return nil
	}
	_, plain := envelope.Open(data)
	version := obj.GetResourceVersion()
	obj.SetResourceVersion("")
	size := sized.Size()
	obj.SetResourceVersion(version)
	if plain == nil || size != len(plain) {
		return nil
	}
	return plain
}

// decodePlain is DecodeStorage of what most kinds are stored as. It neither copies the message nor looks for who can
// decode it. It returns nil if data has another form or is invalid.
func (k *Kind) decodePlain(data []byte) Object {
	if k.Custom || k.etcd != nil || !k.Stored() || k.newObject == nil || k.Storage != k.GroupVersionKind {
		return nil
	}
	about, plain := envelope.Open(data)
	if plain == nil || !envelope.Names(about, k.Storage) {
		return nil
	}
	obj := k.New()
	into, ok := obj.(message)
	if !ok || into.Unmarshal(plain) != nil {
		return nil
	}
	return obj
}
