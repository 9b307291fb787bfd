package proxy

import (
	"bytes"
	"fmt"
	"strconv"
)

// payload reports whether a line announces a message, and its number of bytes: the last word of MSG
// and HMSG lines in the client protocol of NATS.
func payload(line []byte) (size int, message bool, err error) {
	words := bytes.Fields(line)
	if len(words) == 0 || !bytes.EqualFold(words[0], []byte("MSG")) && !bytes.EqualFold(words[0], []byte("HMSG")) {
		return 0, false, nil
	}
	size, err = strconv.Atoi(string(words[len(words)-1]))
	if err != nil || size < 0 || size > maxFrame {
		return 0, false, fmt.Errorf("%w: %q", errFrame, line)
	}
	return size, true, nil
}
