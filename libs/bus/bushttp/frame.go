package bushttp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/garboard/garboard/libs/bus"
)

// Limits of messages.
const (
	// maxFrame is the largest message, in bytes.
	maxFrame = bus.MaxChunk
	// maxHead is the largest head of a request or response.
	maxHead = maxFrame / 2
	// maxWindow and minWindow bound how many bytes the writer of a body may be ahead of its reader.
	maxWindow, minWindow = 1 << 20, 32 << 10
	// maxBeats is how many calls one beat asks about.
	maxBeats = 4096
)

// kind is the first byte of every message.
type kind byte

const (
	// kindRequest is a part of a request, kindAnswer a part of a response; number is the offset of
	// the part in the body. With flagFirst, the credit for the response (in requests only) and the
	// length-prefixed head precede the part.
	kindRequest kind = 1
	kindAnswer  kind = 2
	// kindCredit raises the total number of body bytes that the other end may send to number.
	kindCredit kind = 3
	// kindAbort means that the sender has given up.
	kindAbort kind = 4
	// kindBeat is a beat: questions from the caller, replies from the apiserver.
	kindBeat kind = 5
)

// Flags of a part of a request or response, in the second byte.
const (
	flagFirst byte = 1
	flagLast  byte = 2
)

const (
	frameHeader = 10
	headPrefix  = 4
	creditSize  = 8
)

var errMalformed = errors.New("malformed message")

// frame is one message: kind, flags, number in 8 bytes, and then what the kind defines.
type frame struct {
	kind   kind
	flags  byte
	number uint64
	credit uint64
	head   []byte
	body   []byte
}

func (f frame) first() bool { return f.flags&flagFirst != 0 }
func (f frame) last() bool  { return f.flags&flagLast != 0 }

// overhead returns how much longer the encoded frame is than its body.
func (f frame) overhead() int {
	n := frameHeader
	if f.first() {
		n += headPrefix + len(f.head)
		if f.kind == kindRequest {
			n += creditSize
		}
	}
	return n
}

// appendTo appends the encoded frame to data.
func (f frame) appendTo(data []byte) []byte {
	data = append(data, byte(f.kind), f.flags)
	data = binary.BigEndian.AppendUint64(data, f.number)
	if f.first() {
		if f.kind == kindRequest {
			data = binary.BigEndian.AppendUint64(data, f.credit)
		}
		data = binary.BigEndian.AppendUint32(data, uint32(len(f.head)))
		data = append(data, f.head...)
	}
	return append(data, f.body...)
}

// decode parses a frame, whose slices alias data.
func decode(data []byte) (frame, error) {
	if len(data) < frameHeader || len(data) > maxFrame {
		return frame{}, fmt.Errorf("%w: %d bytes", errMalformed, len(data))
	}
	f := frame{kind: kind(data[0]), flags: data[1], number: binary.BigEndian.Uint64(data[2:])}
	data = data[frameHeader:]
	switch f.kind {
	case kindRequest, kindAnswer:
	case kindCredit, kindAbort, kindBeat:
		if f.flags != 0 {
			return frame{}, fmt.Errorf("%w: flags %d of kind %d", errMalformed, f.flags, f.kind)
		}
	default:
		return frame{}, fmt.Errorf("%w: kind %d", errMalformed, f.kind)
	}
	if f.flags&^(flagFirst|flagLast) != 0 {
		return frame{}, fmt.Errorf("%w: flags %d", errMalformed, f.flags)
	}
	if f.first() {
		if f.number != 0 {
			return frame{}, fmt.Errorf("%w: the first part at %d", errMalformed, f.number)
		}
		if f.kind == kindRequest {
			if len(data) < creditSize {
				return frame{}, fmt.Errorf("%w: no credit", errMalformed)
			}
			f.credit, data = binary.BigEndian.Uint64(data), data[creditSize:]
		}
		if len(data) < headPrefix {
			return frame{}, fmt.Errorf("%w: no head", errMalformed)
		}
		n := uint64(binary.BigEndian.Uint32(data))
		data = data[headPrefix:]
		if n > maxHead || n > uint64(len(data)) {
			return frame{}, fmt.Errorf("%w: a head of %d bytes", errMalformed, n)
		}
		f.head, data = data[:n:n], data[n:]
	}
	f.body = data
	return f, nil
}

// question asks an apiserver about one call, and repeats values that may have been lost.
type question struct {
	server, call uint64 // the call's number at the apiserver, and at the caller
	granted      uint64 // credit for the response
	sent         uint64 // bytes of the request body that were sent
}

// reply reports an apiserver's progress with a call.
type reply struct {
	call  uint64
	known bool
	sent  uint64 // bytes of the response body that were sent
}

const (
	questionSize = 32
	replySize    = 17
)

func encodeQuestions(all []question) []byte {
	data := frame{kind: kindBeat}.appendTo(make([]byte, 0, frameHeader+questionSize*len(all)))
	for _, q := range all {
		for _, n := range []uint64{q.server, q.call, q.granted, q.sent} {
			data = binary.BigEndian.AppendUint64(data, n)
		}
	}
	return data
}

func decodeQuestions(body []byte) ([]question, error) {
	if len(body)%questionSize != 0 || len(body) > maxBeats*questionSize {
		return nil, fmt.Errorf("%w: a beat of %d bytes", errMalformed, len(body))
	}
	all := make([]question, 0, len(body)/questionSize)
	for ; len(body) > 0; body = body[questionSize:] {
		all = append(all, question{
			server: binary.BigEndian.Uint64(body), call: binary.BigEndian.Uint64(body[8:]),
			granted: binary.BigEndian.Uint64(body[16:]), sent: binary.BigEndian.Uint64(body[24:]),
		})
	}
	return all, nil
}

func encodeReplies(all []reply) []byte {
	data := frame{kind: kindBeat}.appendTo(make([]byte, 0, frameHeader+replySize*len(all)))
	for _, r := range all {
		data = binary.BigEndian.AppendUint64(data, r.call)
		known := byte(0)
		if r.known {
			known = 1
		}
		data = append(data, known)
		data = binary.BigEndian.AppendUint64(data, r.sent)
	}
	return data
}

func decodeReplies(body []byte) ([]reply, error) {
	if len(body)%replySize != 0 || len(body) > maxBeats*replySize {
		return nil, fmt.Errorf("%w: an answer to a beat of %d bytes", errMalformed, len(body))
	}
	all := make([]reply, 0, len(body)/replySize)
	for ; len(body) > 0; body = body[replySize:] {
		if body[8] > 1 {
			return nil, fmt.Errorf("%w: an answer to a beat with state %d", errMalformed, body[8])
		}
		all = append(all, reply{
			call: binary.BigEndian.Uint64(body), known: body[8] == 1, sent: binary.BigEndian.Uint64(body[9:]),
		})
	}
	return all, nil
}
