package authn

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"
)

// settled is the age above which a file counts as completely written. A younger file may still
// change without its modification time showing it.
const settled = 100 * time.Millisecond

// reloading is the content of a file, read again when the file changes. If the file becomes
// unreadable or invalid, the last valid content stays in use and the error is logged once.
type reloading[T any] struct {
	path  string
	what  string // for errors: "the token file"
	parse func(data []byte) (T, error)
	log   *slog.Logger

	mu      sync.Mutex
	info    fs.FileInfo // of the file when it was last read, valid or not
	young   bool        // the file may have changed since without a new modification time
	err     error       // what is wrong with the file
	content T
	logged  string // the last logged error
}

func newReloading[T any](path, what string, log *slog.Logger, parse func(data []byte) (T, error)) (*reloading[T], error) {
	f := &reloading[T]{path: path, what: what, parse: parse, log: log}
	if err := f.reload(); err != nil {
		return nil, err
	}
	return f, nil
}

// get returns the file's present content, or its last valid content if it is now invalid.
func (f *reloading[T]) get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch err := f.reload(); {
	case err == nil:
		f.logged = ""
	case err.Error() != f.logged:
		f.logged = err.Error()
		f.log.Warn("reloading a file failed; its previous content stays in use", "file", f.path, "err", err)
	}
	return f.content
}

// reload reads the file if it has changed.
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
