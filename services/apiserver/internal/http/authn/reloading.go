package authn

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"
)

// settled is the age from which a file is taken for written: one that is younger may change
// again without its time of change showing it.
const settled = 100 * time.Millisecond

// reloading is the content of a file, read again when the file has changed. A file that has
// become unreadable or wrong changes nothing: what it said before still counts, and the log says
// once what is wrong.
type reloading[T any] struct {
	path  string
	what  string // for errors: "the token file"
	parse func(data []byte) (T, error)
	log   *slog.Logger

	mu      sync.Mutex
	info    fs.FileInfo // of the file as it was last read, right or wrong
	young   bool        // it may have changed since without a trace
	err     error       // what was wrong with it
	content T
	logged  string // the error that was logged last
}

func newReloading[T any](path, what string, log *slog.Logger, parse func(data []byte) (T, error)) (*reloading[T], error) {
	f := &reloading[T]{path: path, what: what, parse: parse, log: log}
	if err := f.reload(); err != nil {
		return nil, err
	}
	return f, nil
}

// get gives what the file says now, or said before it became wrong.
func (f *reloading[T]) get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch err := f.reload(); {
	case err == nil:
		f.logged = ""
	case err.Error() != f.logged:
		f.logged = err.Error()
		f.log.Warn("A file has changed and cannot be read; what it said before still counts", "file", f.path, "err", err)
	}
	return f.content
}

// reload reads the file unless it is as it was.
func (f *reloading[T]) reload() error {
	info, err := os.Stat(f.path)
	if err != nil {
		return fmt.Errorf("reading %s: %w", f.what, err)
	}
	if f.info != nil && !f.young && os.SameFile(info, f.info) && info.ModTime().Equal(f.info.ModTime()) && info.Size() == f.info.Size() {
		return f.err
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return fmt.Errorf("reading %s: %w", f.what, err)
	}
	f.info, f.young, f.err = info, time.Since(info.ModTime()) < settled, nil
	content, err := f.parse(data)
	if err != nil {
		f.err = fmt.Errorf("reading %s %s: %w", f.what, f.path, err)
		return f.err
	}
	f.content = content
	return nil
}
