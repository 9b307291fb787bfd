package protocol

import (
	"strconv"
	"strings"
)

// BeatToken is the last token of the subject at which an apiserver receives beats.
const BeatToken = "beat"

// BeatReply begins the last token of the subject at which the answer to a beat arrives. No call's
// number begins with it.
const BeatReply = "-"

// SplitAddress splits the subject at which an apiserver receives messages about a call into the
// subject at which it receives beats, without the last token, and the call's number there.
func SplitAddress(subject string) (at string, number uint64, ok bool) {
	cut := strings.LastIndexByte(subject, '.')
	if cut < 0 {
		return "", 0, false
	}
	number, err := strconv.ParseUint(subject[cut+1:], 36, 64)
	return subject[:cut], number, err == nil
}

// Addr is the address of an end of a connection over NATS.
type Addr string

// Network returns the name of the network.
func (Addr) Network() string { return "nats" }

// String returns the address.
func (a Addr) String() string { return string(a) }
