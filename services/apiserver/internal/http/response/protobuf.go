package response

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/scheme"
)

// Kubernetes' protobuf format: a prefix and a runtime.Unknown around the object. An object's
// metadata is always its first field, and the items of a list are its second.
const (
	protobufPrefix = "k8s\x00"

	unknownRaw      = 2
	objectMeta      = 1
	listItems       = 2
	resourceVersion = 6 // of ObjectMeta
)

// errNoPlace reports that a message does not have the form of a Kubernetes object.
var errNoPlace = errors.New("the stored message is not in Kubernetes' form")

// message is implemented by all types of the API.
type message interface {
	Size() int
	MarshalToSizedBuffer(data []byte) (int, error)
}

// protobufList writes a list in protobuf. Items whose stored bytes are at hand are not encoded
// again: their bytes are sent with the resourceVersion inserted.
func (e *Encoder) protobufList(w http.ResponseWriter, r *http.Request, list List) error {
	listMeta, err := list.Meta.Marshal()
	if err != nil {
		return fmt.Errorf("encoding a list's metadata: %w", err)
	}
	size := field(objectMeta, len(listMeta))
	items := make([]splice, list.Len)
	for i := range items {
		if items[i], err = list.splice(i); err != nil {
			return fmt.Errorf("encoding an item of a list: %w", err)
		}
		size += field(listItems, items[i].size)
	}
	head := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: list.Kind.GroupVersion().String(), Kind: list.Kind.Kind}}
	outer, err := head.Marshal()
	if err != nil {
		return fmt.Errorf("encoding a list: %w", err)
	}
	kind, tail := outer[:head.Size()-emptyFields], outer[head.Size()-emptyFields:]
	b := e.newBody(w, r, http.StatusOK, runtime.ContentTypeProtobuf, int64(len(protobufPrefix)+len(outer)+field(unknownRaw, size)))
	buffer := append([]byte(protobufPrefix), kind...)
	buffer = begin(buffer, unknownRaw, size)
	buffer = begin(buffer, objectMeta, len(listMeta))
	buffer = append(buffer, listMeta...)
	for i := range items {
		obj, plain := list.Item(i)
		buffer = begin(buffer, listItems, items[i].size)
		if buffer, err = items[i].append(buffer, obj, plain); err != nil {
			return b.fail(fmt.Errorf("encoding an item of a list: %w", err))
		}
		if _, err := b.Write(buffer); err != nil {
			e.gone(r, err)
			b.release()
			return nil
		}
		buffer = buffer[:0]
	}
	_, err = b.Write(append(buffer, tail...))
	e.gone(r, errors.Join(err, b.end()))
	return nil
}

// emptyFields is the size in bytes of runtime.Unknown's empty content encoding and type, which are
// always written after the raw object.
const emptyFields = 4

// field returns the size of a field of n bytes.
func field(number protowire.Number, n int) int {
	return protowire.SizeTag(number) + protowire.SizeBytes(n)
}

// begin appends the tag and length of a field of n bytes.
func begin(buffer []byte, number protowire.Number, n int) []byte {
	return binary.AppendUvarint(protowire.AppendTag(buffer, number, protowire.BytesType), uint64(n))
}

// splice is where an object's resourceVersion goes in its stored message. The result is a new head
// for the metadata, message[first:from], the version and message[to:end].
type splice struct {
	// size is the size of the result, metadata that of its metadata.
	size, metadata       int
	first, from, to, end int
	// made is the result as a message if it is not made of the stored one; nil otherwise.
	made message
}

// splice returns how an item is written.
func (l List) splice(i int) (splice, error) {
	obj, plain := l.Item(i)
	partial := !l.Partial.Empty()
	if _, loose := obj.(*unstructured.Unstructured); partial && (loose || plain == nil) {
		made := partialOf(obj, plain, l.Partial)
		return splice{size: made.Size(), made: made}, nil
	}
	return newSplice(obj, plain, partial)
}

// newSplice finds the position in plain, of which it takes the metadata alone if partial is set. If plain is nil, the
// object will be encoded.
func newSplice(obj scheme.Object, plain []byte, partial bool) (splice, error) {
	if plain == nil {
		encodable, ok := obj.(message)
		if !ok {
			return splice{}, fmt.Errorf("a %T has no protobuf form", obj)
		}
		return splice{size: encodable.Size(), made: encodable}, nil
	}
	number, wire, n := protowire.ConsumeTag(plain)
	if n < 0 || number != objectMeta || wire != protowire.BytesType {
		return splice{}, errNoPlace
	}
	length, m := protowire.ConsumeVarint(plain[n:])
	if m < 0 || length > uint64(len(plain)-n-m) {
		return splice{}, errNoPlace
	}
	s := splice{first: n + m}
	end := s.first + int(length)
	// Fields are ordered by number, so the position is before the first later one.
	for s.from = s.first; s.from < end; {
		number, wire, n := protowire.ConsumeTag(plain[s.from:end])
		if n < 0 {
			return splice{}, errNoPlace
		}
		if number > resourceVersion {
			break
		}
		m := protowire.ConsumeFieldValue(number, wire, plain[s.from+n:end])
		if m < 0 {
			return splice{}, errNoPlace
		}
		if number == resourceVersion {
			s.to = s.from + n + m
			break
		}
		s.from += n + m
	}
	if s.to == 0 {
		s.to = s.from
	}
	s.metadata = int(length) - (s.to - s.from) + field(resourceVersion, len(obj.GetResourceVersion()))
	if s.end = len(plain); partial {
		s.end = end
	}
	s.size = field(objectMeta, s.metadata) + s.end - end
	return s, nil
}

// append appends the object's message.
func (s splice) append(buffer []byte, obj scheme.Object, plain []byte) ([]byte, error) {
	if s.made != nil {
		at := len(buffer)
		buffer = append(buffer, make([]byte, s.size)...)
		n, err := s.made.MarshalToSizedBuffer(buffer[at:])
		if err == nil && n != s.size {
			err = fmt.Errorf("a %T of %d bytes took %d", s.made, s.size, n)
		}
		return buffer, err
	}
	version := obj.GetResourceVersion()
	buffer = begin(buffer, objectMeta, s.metadata)
	buffer = append(buffer, plain[s.first:s.from]...)
	buffer = begin(buffer, resourceVersion, len(version))
	buffer = append(buffer, version...)
	return append(buffer, plain[s.to:s.end]...), nil
}
