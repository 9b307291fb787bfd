// Package envelope reads the envelope in which Kubernetes stores objects as protobuf: "k8s\x00", then a runtime.Unknown
// with the kind and the encoded object (apimachinery, pkg/runtime/serializer/protobuf). It copies nothing.
package envelope

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Prefix is how an envelope begins.
const Prefix = "k8s\x00"

// The fields of runtime.Unknown, and of runtime.TypeMeta.
const (
	fieldType        = 1
	fieldRaw         = 2
	fieldEncoding    = 3
	fieldContentType = 4

	fieldAPIVersion = 1
	fieldKind       = 2
)

// Open returns the parts of an envelope, which are parts of data: the encoded runtime.TypeMeta and the message. Both are
// nil if data is not an envelope that a simple reader can be sure of, or if the message has another encoding.
func Open(data []byte) (about, message []byte) {
	rest, enveloped := bytes.CutPrefix(data, []byte(Prefix))
	for enveloped && len(rest) > 0 {
		number, value, n := field(rest)
		if n < 0 {
			return nil, nil
		}
		switch number {
		case fieldType:
			if about != nil {
				return nil, nil // The two would be merged.
			}
			about = value
		case fieldRaw:
			message = value
		case fieldEncoding, fieldContentType:
			if len(value) > 0 {
				return nil, nil
			}
		}
		rest = rest[n:]
	}
	return about, message
}

// Names reports whether an encoded runtime.TypeMeta names a kind, and says nothing else.
func Names(about []byte, kind schema.GroupVersionKind) bool {
	version := kind.Version
	if kind.Group != "" {
		version = kind.Group + "/" + version
	}
	number, value, n := field(about)
	if n < 0 || number != fieldAPIVersion || string(value) != version {
		return false
	}
	about = about[n:]
	number, value, n = field(about)
	return n == len(about) && number == fieldKind && string(value) == kind.Kind
}

// field returns the first field of an encoded message and its size; a negative size if that is no field of bytes.
func field(data []byte) (number protowire.Number, value []byte, size int) {
	number, wire, n := protowire.ConsumeTag(data)
	if n < 0 || wire != protowire.BytesType {
		return 0, nil, -1
	}
	value, m := protowire.ConsumeBytes(data[n:])
	if m < 0 {
		return 0, nil, -1
	}
	return number, value, n + m
}
