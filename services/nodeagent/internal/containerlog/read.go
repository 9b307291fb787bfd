package containerlog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/garboard/garboard/libs/backoff"
)

// pollEvery is the polling interval of a followed file without new data.
const pollEvery = 100 * time.Millisecond

// maxEntry bounds the bytes of one entry held in memory; a longer entry is passed on in pieces.
const maxEntry = 1 << 20

// Options select the part of a log to read, as core/v1 PodLogOptions do.
type Options struct {
	// Follow continues until the container has ended and everything is read.
	Follow bool
	// Tail is the number of last lines to start with; all when nil.
	Tail *int64
	// Since omits entries written before it; ignored when zero.
	Since time.Time
	// Timestamps prefixes each line with its time.
	Timestamps bool
	// LimitBytes ends the output after that many bytes, in the middle of a line if need be; no
	// limit when nil.
	LimitBytes *int64
	// Only selects one stream; both when empty.
	Only Stream
}

// Running reports whether the container whose log is followed still runs; false ends the following
// once everything is read.
type Running func(ctx context.Context) (bool, error)

// Read writes the log file at path to w according to opts; running is needed only to follow. Like
// Kubernetes, it reads only the file the runtime writes to, not files rotated away earlier; it
// follows rotations while following. It returns nil when everything requested is written, ctx's
// error if ctx ended first, and an error that is fs.ErrNotExist if there is no log. It skips
// entries that are not in CRI's format.
func Read(ctx context.Context, path string, opts Options, running Running, w io.Writer) error {
	if err := opts.validate(); err != nil {
		return fmt.Errorf("reading the log %s: %w", path, err)
	}
	r := &reader{path: path, opts: opts, running: running, out: newOutput(opts, w)}
	err := r.read(ctx)
	if errors.Is(err, errLimit) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("reading the log %s: %w", path, err)
	}
	return nil
}

func (o Options) validate() error {
	switch {
	case o.Tail != nil && *o.Tail < 0:
		return fmt.Errorf("the number of last lines %d is negative", *o.Tail)
	case o.LimitBytes != nil && *o.LimitBytes < 1:
		return fmt.Errorf("the limit of %d bytes is not positive", *o.LimitBytes)
	case o.Only != "" && o.Only != Stdout && o.Only != Stderr:
		return fmt.Errorf("unknown stream %q", o.Only)
	}
	return nil
}

// reader reads a log once.
type reader struct {
	path    string
	opts    Options
	running Running
	out     *output

	file   *os.File
	buffer *bufio.Reader
	// offset is the number of bytes read from file; pending are those of an incomplete entry.
	offset  int64
	pending []byte
}

func (r *reader) read(ctx context.Context) error {
	if err := r.open(ctx); err != nil {
		return err
	}
	defer func() { _ = r.file.Close() }()
	if r.opts.Tail != nil {
		start, err := tailStart(r.file, *r.opts.Tail, r.opts.Only)
		if err != nil {
			return err
		}
		if _, err := r.file.Seek(start, io.SeekStart); err != nil {
			return err
		}
		r.offset = start
	}
	for {
		if err := r.drain(ctx); err != nil {
			return err
		}
		if !r.opts.Follow {
			r.flushPending()
			return r.out.flush()
		}
		if err := r.out.flush(); err != nil {
			return err
		}
		ended, err := r.wait(ctx)
		if err != nil {
			return err
		}
		if ended {
			r.flushPending()
			return r.out.flush()
		}
	}
}

// open opens the file; when following, it waits for the file while the container runs.
func (r *reader) open(ctx context.Context) error {
	for {
		file, err := os.Open(r.path)
		if err == nil {
			r.use(file)
			return nil
		}
		if !r.opts.Follow || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if alive, stateErr := r.running(ctx); stateErr != nil || !alive {
			return errors.Join(err, stateErr)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

func (r *reader) use(file *os.File) {
	r.file, r.offset = file, 0
	if r.buffer == nil {
		r.buffer = bufio.NewReaderSize(file, 64<<10)
	} else {
		r.buffer.Reset(file)
	}
}

// drain passes on all entries up to the end of the file.
func (r *reader) drain(ctx context.Context) error {
	for ctx.Err() == nil {
		piece, err := r.buffer.ReadSlice('\n')
		r.offset += int64(len(piece))
		if len(piece) > 0 && piece[len(piece)-1] == '\n' {
			if err := r.entry(piece[:len(piece)-1], true); err != nil {
				return err
			}
			continue
		}
		r.pending = append(r.pending, piece...)
		if len(r.pending) >= maxEntry {
			if err := r.entry(nil, false); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
	return context.Cause(ctx)
}

// entry passes on what is pending with the rest of its line; ends reports that the line ends there.
func (r *reader) entry(rest []byte, ends bool) error {
	line := rest
	if len(r.pending) > 0 {
		r.pending = append(r.pending, rest...)
		line = r.pending
	}
	err := r.out.line(line, ends)
	r.pending = r.pending[:0]
	return err
}

// flushPending passes on a last entry that the runtime did not terminate.
func (r *reader) flushPending() {
	if len(r.pending) > 0 {
		_ = r.entry(nil, true) // flush reports the error of an unfinished entry that cannot be written
	}
}

// wait returns when there may be more to read. ended reports that the container has ended and wrote
// nothing afterwards.
func (r *reader) wait(ctx context.Context) (ended bool, err error) {
	alive, err := r.running(ctx)
	if err != nil {
		return false, fmt.Errorf("asking whether the container runs: %w", err)
	}
	if err := r.rotated(ctx); err != nil {
		return false, err
	}
	if alive {
		return false, pause(ctx)
	}
	// The container's last output was written before it was seen to have ended.
	before := r.offset
	if err := r.drain(ctx); err != nil {
		return false, err
	}
	return r.offset == before, r.out.flush()
}

// rotated switches to a new file at the path, if there is one, after reading the old file to its
// end. If the file was truncated it starts again at its beginning.
func (r *reader) rotated(ctx context.Context) error {
	mine, err := r.file.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // between rename and reopening
	}
	if err != nil {
		return err
	}
	if os.SameFile(mine, there) {
		if there.Size() < r.offset {
			if _, err := r.file.Seek(0, io.SeekStart); err != nil {
				return err
			}
			r.pending = r.pending[:0]
			r.use(r.file)
		}
		return nil
	}
	if err := r.drain(ctx); err != nil {
		return err
	}
	next, err := os.Open(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // rotated once more
	}
	if err != nil {
		return err
	}
	r.flushPending()
	_ = r.file.Close()
	r.use(next)
	return nil
}

func pause(ctx context.Context) error {
	backoff.Sleep(ctx, pollEvery)
	return context.Cause(ctx)
}
