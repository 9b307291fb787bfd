package containerlog

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// Stream is an output stream of a container.
type Stream string

// The output streams of a container.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// timestampFormat is the format of kubectl logs --timestamps: RFC 3339 with all nine digits.
const timestampFormat = "2006-01-02T15:04:05.000000000Z07:00"

var (
	tagSeparator = []byte{':'}
	partialTag   = []byte{'P'}
	fullTag      = []byte{'F'}
)

// entry is one line of a log file.
type entry struct {
	at     time.Time
	stream Stream
	// partial: the next entry of the stream continues this one's line.
	partial bool
	// content has no newline. It shares the memory of the parsed line.
	content []byte
}

// parse parses one line of a log file, without its newline.
func parse(line []byte) (entry, error) {
	stamp, rest, found := bytes.Cut(line, []byte{' '})
	if !found {
		return entry{}, errors.New("log entry without a stream")
	}
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return entry{}, fmt.Errorf("log entry with a bad timestamp: %w", err)
	}
	stream, rest, found := bytes.Cut(rest, []byte{' '})
	if !found {
		return entry{}, errors.New("log entry without a tag")
	}
	e := entry{at: at, stream: Stream(stream)}
	if e.stream != Stdout && e.stream != Stderr {
		return entry{}, fmt.Errorf("log entry of an unknown stream %q", stream)
	}
	// An entry with no content may lack the space before it.
	tags, content, _ := bytes.Cut(rest, []byte{' '})
	first, _, _ := bytes.Cut(tags, tagSeparator)
	switch {
	case bytes.Equal(first, partialTag):
		e.partial = true
	case !bytes.Equal(first, fullTag):
		return entry{}, fmt.Errorf("log entry with an unknown tag %q", tags)
	}
	e.content = content
	return e, nil
}

// Format formats an entry as runtimes do; content must have no newline.
func Format(at time.Time, stream Stream, partial bool, content []byte) []byte {
	line := at.AppendFormat(nil, time.RFC3339Nano)
	line = append(line, ' ')
	line = append(line, stream...)
	if partial {
		line = append(line, " P "...)
	} else {
		line = append(line, " F "...)
	}
	line = append(line, content...)
	return append(line, '\n')
}
