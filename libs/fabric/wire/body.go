package wire

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// bodyField is the number of the field body in watch.proto's Message.
const bodyField protowire.Number = 17

// decode is proto.Unmarshal, but the body, which is most of a message, is not copied: it is a part of data.
func decode(data []byte) (*watchv1.Message, error) {
	from, to, body := bodyOf(data)
	m := &watchv1.Message{}
	if body == nil {
		return m, proto.Unmarshal(data, m)
	}
	rest := make([]byte, 0, len(data)-(to-from))
	rest = append(append(rest, data[:from]...), data[to:]...)
	if err := proto.Unmarshal(rest, m); err != nil {
		return nil, err
	}
	m.Body = body
	return m, nil
}

// bodyOf finds the one field body of an encoded message: where it begins and ends, and its content. The content is nil
// if there is none or it is empty, if there are several, or if data is no message.
func bodyOf(data []byte) (from, to int, body []byte) {
	for at := 0; at < len(data); {
		number, wire, tag := protowire.ConsumeTag(data[at:])
		if tag < 0 {
			return 0, 0, nil
		}
		size := protowire.ConsumeFieldValue(number, wire, data[at+tag:])
		if size < 0 {
			return 0, 0, nil
		}
		end := at + tag + size
		if number == bodyField {
			if wire != protowire.BytesType || body != nil {
				return 0, 0, nil
			}
			if body, _ = protowire.ConsumeBytes(data[at+tag:]); len(body) == 0 {
				return 0, 0, nil
			}
			from, to, body = at, end, slices.Clip(body)
		}
		at = end
	}
	return from, to, body
}
