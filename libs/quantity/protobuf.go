package quantity

import (
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// envelope is what a body in protobuf begins with.
const envelope = 4

// protobufSpans returns the strings of a body in protobuf that would be costly quantities. It knows no types, and reads all
// that has a length both as a string and as a message. So it comes to all strings of the body, since it reads messages as
// decoding does, up to where that fails. Whatever else it takes for a string is within a string of the body, or a message
// without any: to replace it changes nothing else.
func protobufSpans(data []byte) []span {
	if len(data) < envelope || !mayHoldMessage(data) {
		return nil
	}
	var found []span
	at, end := envelope, len(data)
	var outer []int // where the messages end that at is in, but for the innermost
	for {
		for at == end && len(outer) > 0 {
			end, outer = outer[len(outer)-1], outer[:len(outer)-1]
		}
		if at == end {
			return found
		}
		next, length := fieldAt(data[:end], at)
		switch {
		case next < 0:
			at = end // It is no message, or cannot be decoded.
		case length < 0:
			at = next
		default:
			if err := costlyExactly(data[next : next+length]); err != nil {
				found = append(found, span{next, next + length, true, err})
			}
			outer = append(outer, end)
			at, end = next, next+length
		}
	}
}

// fieldAt reads the field of a message that begins at a position, and returns where the next begins, and a negative length. If
// the field has a length, next is where its value begins. If there is no field that can be read, next is negative.
// A group is read as if its fields were the message's.
func fieldAt(message []byte, at int) (next, length int) {
	tag, n := varint(message[at:])
	if n < 0 {
		return -1, -1
	}
	at += n
	switch protowire.Type(tag & 7) {
	case protowire.VarintType:
		if _, n = varint(message[at:]); n < 0 {
			return -1, -1
		}
		at += n
	case protowire.Fixed32Type:
		at += 4
	case protowire.Fixed64Type:
		at += 8
	case protowire.StartGroupType, protowire.EndGroupType:
	case protowire.BytesType:
		value, n := varint(message[at:])
		if n < 0 || value > uint64(len(message)-at-n) {
			return -1, -1
		}
		return at + n, int(value) //nolint:gosec // It is at most the length of the message.
	default:
		return -1, -1
	}
	if at > len(message) {
		return -1, -1
	}
	return at, -1
}

// costlyExactly is Costly for a text that is parsed with the space around it, which no quantity may have.
func costlyExactly(text []byte) error {
	if len(text) < shortest || !numeric(text[0]) || text[len(text)-1] <= ' ' || text[len(text)-1] >= utf8.RuneSelf {
		return nil
	}
	return Costly(string(text))
}

// maxVarint is how many bytes a number has at most.
const maxVarint = 10

// varint reads a number and returns its bytes; negative if there is none. As where Kubernetes decodes, what exceeds 64 bits
// is lost.
func varint(data []byte) (value uint64, n int) {
	for n < min(len(data), maxVarint) {
		b := data[n]
		value |= uint64(b&0x7f) << (7 * n)
		if n++; b < utf8.RuneSelf {
			return value, n
		}
	}
	return 0, -1
}

// mayHoldMessage reports whether a body in protobuf may have a string that would be a costly quantity. It looks only for
// what has its length before it.
func mayHoldMessage(data []byte) bool {
	for from := 0; ; {
		start, end, ok := run(data, from)
		if !ok {
			return false
		}
		from = end
		// The first digit of the run may itself be the length of the string.
		for at := start + 1; at >= max(1, mantissa(data, start)); at-- {
			length := lengthBefore(data, at)
			if length > uint64(len(data)-at) || at+int(length) < start+shortest { //nolint:gosec // It is at most the length of the body.
				continue
			}
			if costlyExactly(data[at:at+int(length)]) != nil { //nolint:gosec // As before.
				return true
			}
		}
	}
}

// mantissa returns the first position at which a quantity may begin whose exponent, or one of whose parts, is a run of
// digits. It may be too early: the length of the quantity can look like a digit, a sign or a point.
func mantissa(data []byte, start int) int {
	if letter := exponent(data, start); letter >= 0 {
		start = letter
	}
	start = digitsBefore(data, start)
	if start > 0 && data[start-1] == '.' {
		start = digitsBefore(data, start-1)
	}
	if start > 0 && (data[start-1] == '+' || data[start-1] == '-') {
		start--
	}
	return start
}

// digitsBefore returns where the digits before a position begin.
func digitsBefore(data []byte, at int) int {
	for at > 0 && data[at-1]-'0' <= 9 {
		at--
	}
	return at
}

// lengthBefore reads the number whose last byte is before a position; the largest if there is none.
func lengthBefore(data []byte, at int) uint64 {
	first := at - 1
	for first > 0 && at-first < maxVarint && data[first-1] >= utf8.RuneSelf {
		first--
	}
	if value, n := varint(data[first:at]); n == at-first {
		return value
	}
	return math.MaxUint64
}
