package scheme

import (
	"bytes"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// EncodeStorage gives the bytes that etcd and watch messages hold for obj: Kubernetes'
// protobuf envelope ("k8s\x00", then the kind, then the object), exactly as kube-apiserver
// writes it. The object's own group, version and kind are overwritten by the storage kind.
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
	var buf bytes.Buffer
	if err := t.protobuf.Encode(obj, &buf); err != nil {
		return nil, fmt.Errorf("encoding %s %s/%s: %w", kind.Storage.Kind, obj.GetNamespace(), obj.GetName(), err)
	}
	return buf.Bytes(), nil
}

// DecodeStorage reads what EncodeStorage wrote. JSON is read too, since Kubernetes stores
// some kinds so. The result has the storage kind set; its resourceVersion is as stored, that
// is, empty.
func (t *Table) DecodeStorage(kind *Kind, data []byte) (Object, error) {
	decoder := t.codecs.UniversalDeserializer()
	obj, gvk, err := decoder.Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decoding a stored %s of %d bytes: %w", kind.Storage.Kind, len(data), err)
	}
	if *gvk != kind.Storage {
		return nil, fmt.Errorf("decoding a stored %s: found a %s", kind.Storage, gvk)
	}
	typed, ok := obj.(Object)
	if !ok {
		return nil, fmt.Errorf("decoding a stored %s: %T has no metadata", kind.Storage.Kind, obj)
	}
	typed.GetObjectKind().SetGroupVersionKind(kind.Storage)
	return typed, nil
}

// Complete fills in obj, which was read from data, and gives the bytes that hold what has become of
// it: data itself if fill made no difference, so that fields which this program does not know stay.
// Nobody else may use obj meanwhile; its resourceVersion stays as it is, and out of the bytes.
func (t *Table) Complete(kind *Kind, data []byte, obj Object, fill func(Object)) ([]byte, error) {
	version := obj.GetResourceVersion()
	obj.SetResourceVersion("")
	defer obj.SetResourceVersion(version)
	encodable, ok := obj.(message)
	if !ok {
		fill(obj)
		return t.EncodeStorage(kind, obj)
	}
	was := Plain(data, obj)
	if was == nil {
		was = make([]byte, encodable.Size())
		if _, err := encodable.MarshalToSizedBuffer(was); err != nil {
			return nil, fmt.Errorf("encoding a %s: %w", kind.Storage.Kind, err)
		}
	}
	fill(obj)
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

// message is what all types of the API have.
type message interface {
	Size() int
	MarshalToSizedBuffer(data []byte) (int, error)
}

// envelope is what Kubernetes' protobuf begins with; then follows a runtime.Unknown.
const envelope = "k8s\x00"

// The fields of runtime.Unknown.
const (
	unknownRaw         = 2
	unknownEncoding    = 3
	unknownContentType = 4
)

// Plain gives the protobuf message within the bytes from which obj was decoded, if encoding
// obj without its resourceVersion would give as many; else nil, as for objects that are stored
// as JSON or hold fields that this program does not know. Nobody else may use obj meanwhile.
func Plain(data []byte, obj Object) []byte {
	sized, ok := obj.(interface{ Size() int })
	if !ok || !bytes.HasPrefix(data, []byte(envelope)) {
		return nil
	}
	var plain []byte
	for rest := data[len(envelope):]; len(rest) > 0; {
		number, wire, n := protowire.ConsumeTag(rest)
		if n < 0 || wire != protowire.BytesType {
			return nil
		}
		value, m := protowire.ConsumeBytes(rest[n:])
		if m < 0 {
			return nil
		}
		switch number {
		case unknownRaw:
			plain = value
		case unknownEncoding, unknownContentType:
			if len(value) > 0 {
				return nil
			}
		}
		rest = rest[n+m:]
	}
	version := obj.GetResourceVersion()
	obj.SetResourceVersion("")
	size := sized.Size()
	obj.SetResourceVersion(version)
	if plain == nil || size != len(plain) {
		return nil
	}
	return plain
}
