// Package protocol is how bushttp's messages are written: frames, which carry parts of requests and
// responses, credit and beats, and the heads of requests and responses within them. It computes bytes
// and sends nothing.
package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Limits of messages.
const (
	// MaxFrame is the largest message, in bytes.
	MaxFrame = 256 << 10
	// MaxHead is the largest head of a request or response.
	MaxHead = MaxFrame / 2
	// MaxBody is the largest part of a body in a message without a head.
	MaxBody = MaxFrame - frameHeader
	// MaxQuestions is how many calls one beat asks about.
	MaxQuestions = 4096
)

// Kind is the first byte of every message.
type Kind byte

const (
	// KindRequest is a part of a request, KindAnswer a part of a response; number is the offset of
	// the part in the body. With FlagFirst, the credit for the response (in requests only) and the
	// length-prefixed head precede the part.
	KindRequest Kind = 1
	KindAnswer  Kind = 2
	// KindCredit raises the total number of body bytes that the other end may send to number.
	KindCredit Kind = 3
	// KindAbort means that the sender has given up.
	KindAbort Kind = 4
	// KindBeat is a beat: questions from the caller, replies from the apiserver.
	KindBeat Kind = 5
)

// Flags of a part of a request or response, in the second byte.
const (
	FlagFirst byte = 1
	FlagLast  byte = 2
)

const (
	frameHeader = 10
	headPrefix  = 4
	creditSize  = 8
)

// ErrMalformed means that a message does not follow the protocol.
var ErrMalformed = errors.New("malformed message")

// Frame is one message: kind, flags, number in 8 bytes, and then what the kind defines.
type Frame struct {
	Kind   Kind
	Flags  byte
	Number uint64
	// Credit and Head are set only in the first part of a request or response.
	Credit uint64
	Head   []byte
	Body   []byte
}

// First reports whether the part is the first of its request or response.
func (f Frame) First() bool { return f.Flags&FlagFirst != 0 }

// Last reports whether the part is the last of its request or response.
func (f Frame) Last() bool { return f.Flags&FlagLast != 0 }

// Overhead returns how much longer the encoded frame is than its body.
func (f Frame) Overhead() int {
	n := frameHeader
	if f.First() {
		n += headPrefix + len(f.Head)
		if f.Kind == KindRequest {
			n += creditSize
		}
	}
	return n
}

// AppendTo appends the encoded frame to data.
func (f Frame) AppendTo(data []byte) []byte {
	data = append(data, byte(f.Kind), f.Flags)
	data = binary.BigEndian.AppendUint64(data, f.Number)
	if f.First() {
		if f.Kind == KindRequest {
			data = binary.BigEndian.AppendUint64(data, f.Credit)
		}
		data = binary.BigEndian.AppendUint32(data, uint32(len(f.Head)))
		data = append(data, f.Head...)
	}
	return append(data, f.Body...)
}

// Decode parses a frame, whose slices alias data.
func Decode(data []byte) (Frame, error) {
	if len(data) < frameHeader || len(data) > MaxFrame {
		return Frame{}, fmt.Errorf("%w: %d bytes", ErrMalformed, len(data))
	}
	f := Frame{Kind: Kind(data[0]), Flags: data[1], Number: binary.BigEndian.Uint64(data[2:])}
	data = data[frameHeader:]
	switch f.Kind {
	case KindRequest, KindAnswer:
	case KindCredit, KindAbort, KindBeat:
		if f.Flags != 0 {
			return Frame{}, fmt.Errorf("%w: flags %d of kind %d", ErrMalformed, f.Flags, f.Kind)
		}
	default:
		return Frame{}, fmt.Errorf("%w: kind %d", ErrMalformed, f.Kind)
	}
	if f.Flags&^(FlagFirst|FlagLast) != 0 {
		return Frame{}, fmt.Errorf("%w: flags %d", ErrMalformed, f.Flags)
	}
	if f.First() {
		if f.Number != 0 {
			return Frame{}, fmt.Errorf("%w: the first part at %d", ErrMalformed, f.Number)
		}
		if f.Kind == KindRequest {
			if len(data) < creditSize {
				return Frame{}, fmt.Errorf("%w: no credit", ErrMalformed)
			}
			f.Credit, data = binary.BigEndian.Uint64(data), data[creditSize:]
		}
		if len(data) < headPrefix {
			return Frame{}, fmt.Errorf("%w: no head", ErrMalformed)
		}
		n := uint64(binary.BigEndian.Uint32(data))
		data = data[headPrefix:]
		if n > MaxHead || n > uint64(len(data)) {
			return Frame{}, fmt.Errorf("%w: a head of %d bytes", ErrMalformed, n)
		}
		f.Head, data = data[:n:n], data[n:]
	}
	f.Body = data
	return f, nil
}

// Question asks an apiserver about one call, and repeats values that may have been lost.
type Question struct {
	Server, Call uint64 // the call's number at the apiserver, and at the caller
	Granted      uint64 // credit for the response
	Sent         uint64 // bytes of the request body that were sent
}

// Reply reports an apiserver's progress with a call.
type Reply struct {
	Call  uint64
	Known bool
	Sent  uint64 // bytes of the response body that were sent
}

const (
	questionSize = 32
	replySize    = 17
)

// EncodeQuestions encodes a beat of at most MaxQuestions questions.
func EncodeQuestions(all []Question) []byte {
	data := Frame{Kind: KindBeat}.AppendTo(make([]byte, 0, frameHeader+questionSize*len(all)))
	for _, q := range all {
		for _, n := range []uint64{q.Server, q.Call, q.Granted, q.Sent} {
			data = binary.BigEndian.AppendUint64(data, n)
		}
	}
	return data
}

// DecodeQuestions parses the body of a beat.
func DecodeQuestions(body []byte) ([]Question, error) {
	if len(body)%questionSize != 0 || len(body) > MaxQuestions*questionSize {
		return nil, fmt.Errorf("%w: a beat of %d bytes", ErrMalformed, len(body))
	}
	all := make([]Question, 0, len(body)/questionSize)
	for ; len(body) > 0; body = body[questionSize:] {
		all = append(all, Question{
			Server: binary.BigEndian.Uint64(body), Call: binary.BigEndian.Uint64(body[8:]),
			Granted: binary.BigEndian.Uint64(body[16:]), Sent: binary.BigEndian.Uint64(body[24:]),
		})
	}
	return all, nil
}

// EncodeReplies encodes the answer to a beat.
func EncodeReplies(all []Reply) []byte {
	data := Frame{Kind: KindBeat}.AppendTo(make([]byte, 0, frameHeader+replySize*len(all)))
	for _, r := range all {
		data = binary.BigEndian.AppendUint64(data, r.Call)
		known := byte(0)
		if r.Known {
			known = 1
		}
		data = append(data, known)
		data = binary.BigEndian.AppendUint64(data, r.Sent)
	}
	return data
}

// DecodeReplies parses the body of the answer to a beat.
func DecodeReplies(body []byte) ([]Reply, error) {
	if len(body)%replySize != 0 || len(body) > MaxQuestions*replySize {
		return nil, fmt.Errorf("%w: an answer to a beat of %d bytes", ErrMalformed, len(body))
	}
	all := make([]Reply, 0, len(body)/replySize)
	for ; len(body) > 0; body = body[replySize:] {
		if body[8] > 1 {
			return nil, fmt.Errorf("%w: an answer to a beat with state %d", ErrMalformed, body[8])
		}
		all = append(all, Reply{
			Call: binary.BigEndian.Uint64(body), Known: body[8] == 1, Sent: binary.BigEndian.Uint64(body[9:]),
		})
	}
	return all, nil
}
