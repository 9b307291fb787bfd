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
)

// pollEvery is how often a followed file is looked at when it has nothing new.
const pollEvery = 100 * time.Millisecond

// maxEntry is how many bytes of one entry are held in memory; a longer one is passed on in
// pieces.
const maxEntry = 1 << 20

// Options say what of a log is wanted; they are those of core/v1 PodLogOptions.
type Options struct {
	// Follow goes on until the container has ended and all was read.
	Follow bool
	// Tail is how many of the last lines are read first; all when nil.
	Tail *int64
	// Since leaves out what was written before; not used when zero.
	Since time.Time
	// Timestamps puts the moment before each line.
	Timestamps bool
	// LimitBytes ends the output after that many bytes, in the middle of a line if need be;
	// no limit when nil.
	LimitBytes *int64
	// Only is the one stream that is wanted; both when empty.
	Only Stream
}

// Running says whether the container whose log is followed still runs; false ends the following
// once all is read.
type Running func(ctx context.Context) (bool, error)

// Read writes the log file at path to w as opts say; running is needed only to follow. Only the
// file that the runtime writes to is read, not older ones that were rotated away (the same as
// Kubernetes); a rotation while following is followed. It returns nil when all that was asked
// for is written, ctx's error when ctx ended first, an error that is fs.ErrNotExist when there
// is no log. Entries that are not in CRI's format are left out.
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

// reader is one reading of a log.
type reader struct {
	path    string
	opts    Options
	running Running
	out     *output

	file   *os.File
	buffer *bufio.Reader
	// offset is how much of file was taken from it, pending what of that is not yet a whole
	// entry.
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

// open opens the file; when following, it waits for it as long as the container runs.
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

// entry passes on what is pending with the rest of its line; ends says that the line ends there.
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

// flushPending passes on a last entry that the runtime did not end.
func (r *reader) flushPending() {
	if len(r.pending) > 0 {
		_ = r.entry(nil, true) // an unfinished entry that cannot be written is reported by flush
	}
}

// wait returns when there may be more to read, or says that the container ended and nothing was
// written after that.
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
	// What it wrote last was written before it was seen to have ended.
	before := r.offset
	if err := r.drain(ctx); err != nil {
		return false, err
	}
	return r.offset == before, r.out.flush()
}

// rotated goes over to a new file at the path when there is one, after reading the old one to
// its end, and begins anew when the file was cut.
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
	timer := time.NewTimer(pollEvery)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
