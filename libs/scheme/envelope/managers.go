package envelope

import "google.golang.org/protobuf/encoding/protowire"

// fieldManagers is the field of meta/v1's ObjectMeta that says who manages which fields.
const fieldManagers = 17

// WithoutManagers returns an envelope whose object has no metadata.managedFields, which may be most of an object. It
// returns data itself if there are none, and if a simple reader cannot be sure: then there may be some.
func WithoutManagers(data []byte) []byte {
	about, message := Open(data)
	metadata, once := last(message, fieldMetadata)
	if !once || about == nil {
		return data
	}
	kept, found := cut(metadata)
	if !found {
		return data
	}
	raw := make([]byte, 0, len(message))
	for rest := message; len(rest) > 0; {
		number, wire, tag := protowire.ConsumeTag(rest)
		size := tag + protowire.ConsumeFieldValue(number, wire, rest[tag:]) // last has read it.
		if number == fieldMetadata {
			raw = protowire.AppendBytes(protowire.AppendTag(raw, fieldMetadata, protowire.BytesType), kept)
		} else {
			raw = append(raw, rest[:size]...)
		}
		rest = rest[size:]
	}
	out := append(make([]byte, 0, len(data)), Prefix...)
	out = protowire.AppendBytes(protowire.AppendTag(out, fieldType, protowire.BytesType), about)
	return protowire.AppendBytes(protowire.AppendTag(out, fieldRaw, protowire.BytesType), raw)
}

// cut returns encoded metadata without managers, and whether it has any. It finds none in what is invalid.
func cut(metadata []byte) (kept []byte, found bool) {
	kept = make([]byte, 0, len(metadata))
	for rest := metadata; len(rest) > 0; {
		number, wire, tag := protowire.ConsumeTag(rest)
		if tag < 0 {
			return nil, false
		}
		value := protowire.ConsumeFieldValue(number, wire, rest[tag:])
		if value < 0 || number == fieldManagers && wire != protowire.BytesType {
			return nil, false
		}
		if number == fieldManagers {
			found = true
		} else {
			kept = append(kept, rest[:tag+value]...)
		}
		rest = rest[tag+value:]
	}
	return kept, found
}
