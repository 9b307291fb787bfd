package envelope

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// The fields of messages that have metadata, of meta/v1's ObjectMeta and of its ListMeta.
const (
	fieldMetadata      = 1
	fieldObjectVersion = 6
	fieldListVersion   = 2
)

// ResourceVersion returns the resourceVersion of the object or list in an envelope without decoding the rest. It returns
// false if the envelope has none that a simple reader can be sure of, and for a Status, which may be an error.
func ResourceVersion(data []byte) (version string, found bool) {
	about, message := Open(data)
	kind, _ := last(about, fieldKind)
	metadata, once := last(message, fieldMetadata)
	if len(kind) == 0 || string(kind) == "Status" || !once {
		return "", false
	}
	want := protowire.Number(fieldObjectVersion)
	if strings.HasSuffix(string(kind), "List") {
		want = fieldListVersion
	}
	value, once := last(metadata, want)
	if !once || len(value) == 0 {
		return "", false
	}
	return string(value), true
}

// last returns the last field of bytes with a number in an encoded message, and whether it is the only one. Without
// any, or if the message is invalid, it returns nothing.
func last(message []byte, want protowire.Number) (value []byte, once bool) {
	for len(message) > 0 {
		number, wire, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return nil, false
		}
		size := protowire.ConsumeFieldValue(number, wire, message[tag:])
		if size < 0 || number == want && wire != protowire.BytesType {
			return nil, false
		}
		if number == want {
			content, _ := protowire.ConsumeBytes(message[tag:])
			value, once = content, value == nil
		}
		message = message[tag+size:]
	}
	return value, once
}
