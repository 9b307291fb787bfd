// Package bytestream carries a request and a streamed response over the bus: exactly the bytes that
// the other end's handler writes, at the pace of the reader, or an error. Frames are numbered and
// both ends signal that they are alive, so that neither a lost message nor a vanished end is
// mistaken for the end of the stream.
package bytestream

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/garboard/garboard/libs/bus"
)

// Limits of a stream.
const (
	// MaxPart is the largest part of a stream in one message, in bytes.
	MaxPart = 256 << 10
	// window is how many bytes may be in flight to a reader that does not read.
	window = 2 << 20
	// maxServed is how many streams one Server serves at once.
	maxServed = 1024
)

// Transport opens and serves streams over a connection.
type Transport struct {
	// Conn is the connection; required.
	Conn *bus.Conn

	timing timing // defaultTiming if zero
}

// ends returns how this end of a stream watches the other.
func (t Transport) ends() timing {
	if t.timing == (timing{}) {
		return defaultTiming
	}
	return t.timing
}

// timing is how the two ends of a stream watch each other.
type timing struct {
	// beat is the interval at which each end signals that it is alive.
	beat time.Duration
	// dead is how long an end may be silent before the other considers it gone.
	dead time.Duration
}

var defaultTiming = timing{beat: 5 * time.Second, dead: 20 * time.Second}

// frameKind is the first byte of every message of a stream.
type frameKind byte

const (
	// frameOpen begins a stream; number is the window in bytes, the body is the request.
	frameOpen frameKind = 1
	// frameAccept answers it; the reader sends its frames to the message's reply subject.
	frameAccept frameKind = 2
	// frameData carries a part; number counts the parts from 0.
	frameData frameKind = 3
	// frameBeat signals that the writer is alive; number is how many parts it has sent.
	frameBeat frameKind = 4
	// frameEnd ends the stream; number is how many parts were sent. The body is a fault, or empty
	// for success.
	frameEnd frameKind = 5
	// frameCredit signals that the reader is alive; number is the total number of bytes that the
	// writer may have sent.
	frameCredit frameKind = 6
	// frameCancel means that the reader wants no more.
	frameCancel frameKind = 7
)

const frameHeader = 9

// frame is one message of a stream: a kind, a number in 8 bytes, and a body.
type frame struct {
	kind   frameKind
	number uint64
	body   []byte
}

func (f frame) encode() []byte {
	data := make([]byte, frameHeader, frameHeader+len(f.body))
	data[0] = byte(f.kind)
	binary.BigEndian.PutUint64(data[1:], f.number)
	return append(data, f.body...)
}

func decodeFrame(data []byte) (frame, error) {
	if len(data) < frameHeader {
		return frame{}, fmt.Errorf("reading a frame of a stream: %d bytes are too few", len(data))
	}
	f := frame{kind: frameKind(data[0]), number: binary.BigEndian.Uint64(data[1:]), body: data[frameHeader:]}
	if f.kind < frameOpen || f.kind > frameCancel {
		return frame{}, fmt.Errorf("reading a frame of a stream: unknown kind %d", f.kind)
	}
	return f, nil
}

// fault is the error at the end of a stream.
type fault struct {
	Message string `json:"message"`
}

// RemoteError is the error with which the other end's handler ended a stream.
type RemoteError struct {
	// Message is the text of that error.
	Message string
}

// Error returns the text of the other end's error.
func (e *RemoteError) Error() string { return e.Message }

func encodeFault(err error) []byte {
	if err == nil {
		return nil
	}
	// A struct of one string can always be encoded.
	data, _ := json.Marshal(fault{Message: truncate(err.Error(), MaxPart/8)})
	return data
}

func truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return text[:limit]
}

func decodeFault(body []byte) error {
	if len(body) == 0 {
		return nil
	}
	var f fault
	if err := json.Unmarshal(body, &f); err != nil {
		return errors.Join(&RemoteError{Message: "the stream ended with an error that cannot be read"}, err)
	}
	return &RemoteError{Message: f.Message}
}
