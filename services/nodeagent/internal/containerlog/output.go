package containerlog

import (
	"bufio"
	"errors"
	"io"
)

// errLimit: the requested number of bytes has been written.
var errLimit = errors.New("limit of bytes reached")

// output turns entries into the output of kubectl logs.
type output struct {
	opts   Options
	writer *bufio.Writer
	left   int64 // bytes until the limit; negative when there is none

	// open are the streams in the middle of a line, which gets no second timestamp.
	open map[Stream]bool
	// long is the entry whose next piece follows, when it is too long for one.
	long *entry
	// skipping: the following pieces belong to an unwanted entry.
	skipping bool
}

func newOutput(opts Options, w io.Writer) *output {
	o := &output{opts: opts, writer: bufio.NewWriterSize(w, 32<<10), left: -1, open: map[Stream]bool{}}
	if opts.LimitBytes != nil {
		o.left = *opts.LimitBytes
	}
	return o
}

// line takes an entry as it is in the file, or a piece of it; ends marks the last piece.
func (o *output) line(piece []byte, ends bool) error {
	e := o.long
	switch {
	case o.skipping:
		o.skipping = !ends
		return nil
	case e != nil:
		e.content = piece
		if ends {
			o.long = nil
		}
	default:
		parsed, err := parse(piece)
		if err != nil || !o.wanted(parsed) {
			o.skipping = !ends
			return nil
		}
		e = &parsed
		if !ends {
			o.long = e
		}
	}
	if o.opts.Timestamps && !o.open[e.stream] {
		if err := o.write(append([]byte(e.at.Format(timestampFormat)), ' ')); err != nil {
			return err
		}
	}
	o.open[e.stream] = e.partial || !ends
	if err := o.write(e.content); err != nil {
		return err
	}
	if o.open[e.stream] {
		return nil
	}
	return o.write([]byte{'\n'})
}

func (o *output) wanted(e entry) bool {
	if o.opts.Only != "" && e.stream != o.opts.Only {
		return false
	}
	return o.opts.Since.IsZero() || !e.at.Before(o.opts.Since)
}

func (o *output) write(data []byte) error {
	limited := o.left >= 0 && int64(len(data)) >= o.left
	if limited {
		data = data[:o.left]
	}
	if _, err := o.writer.Write(data); err != nil {
		return err
	}
	if limited {
		if err := o.flush(); err != nil {
			return err
		}
		return errLimit
	}
	if o.left >= 0 {
		o.left -= int64(len(data))
	}
	return nil
}

func (o *output) flush() error { return o.writer.Flush() }
