package audit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Stdout is the path that stands for standard output.
const Stdout = "-"

// backupTime is the layout of the rotation time in the name of a rotated file.
const backupTime = "2006-01-02T15-04-05.000"

// File is where events are written. A file that has reached MaxSize is renamed to NAME-TIME.EXT
// and a new one is opened.
type File struct {
	// Path is the file's path, or Stdout.
	Path string
	// MaxSize is the size in bytes at which a file is rotated; 0 for never.
	MaxSize int64
	// MaxAge is how long rotated files are kept; 0 for ever.
	MaxAge time.Duration
	// MaxBackups is how many rotated files are kept; 0 for all.
	MaxBackups int
}

// rotating is an open log file. Only one goroutine may use it. (The existing library for this
// starts a goroutine that never ends.)
type rotating struct {
	File
	out     io.WriteCloser
	size    int64
	trouble func(error) // receives failures that don't stop events from being written
}

func (f File) open(trouble func(error)) (*rotating, error) {
	r := &rotating{File: f, trouble: trouble}
	if f.Path == Stdout {
		r.out = keepOpen{os.Stdout}
		return r, nil
	}
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory of the audit log: %w", err)
	}
	return r, r.begin()
}

// begin opens the file, which may already have content.
func (r *rotating) begin() error {
	file, err := os.OpenFile(r.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the audit log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("opening the audit log: %w", err), file.Close())
	}
	r.out, r.size = file, info.Size()
	return nil
}

// write writes whole lines and rotates the file between them when it is full.
func (r *rotating) write(lines [][]byte) error {
	var joined []byte
	for _, line := range lines {
		if r.full(len(joined) + len(line)) {
			if err := r.append(joined); err != nil {
				return err
			}
			joined = joined[:0]
			if err := r.rotate(); err != nil {
				r.trouble(err) // The file keeps growing while rotation fails.
			}
		}
		joined = append(joined, line...)
	}
	return r.append(joined)
}

// full reports whether the file is not empty and n more bytes would exceed its maximum size.
func (r *rotating) full(n int) bool {
	return r.MaxSize > 0 && r.Path != Stdout && r.size > 0 && r.size+int64(n) > r.MaxSize
}

func (r *rotating) append(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if r.out == nil { // Opening the new file failed after the last rotation.
		if err := r.begin(); err != nil {
			return err
		}
	}
	n, err := r.out.Write(data)
	r.size += int64(n)
	if err != nil {
		return fmt.Errorf("writing the audit log: %w", err)
	}
	return nil
}

// rotate renames the file, opens a new one and removes old ones.
func (r *rotating) rotate() error {
	if err := r.Close(); err != nil {
		return fmt.Errorf("closing the audit log: %w", err)
	}
	if err := os.Rename(r.Path, r.backup(time.Now())); err != nil {
		return fmt.Errorf("renaming the full audit log: %w", err)
	}
	return errors.Join(r.begin(), r.prune(time.Now()))
}

// backup returns an unused name for the file that is rotated at now.
func (r *rotating) backup(now time.Time) string {
	prefix, ext := r.parts()
	for {
		path := filepath.Join(filepath.Dir(r.Path), prefix+now.UTC().Format(backupTime)+ext)
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			return path
		}
		now = now.Add(time.Millisecond)
	}
}

func (r *rotating) parts() (prefix, ext string) {
	name := filepath.Base(r.Path)
	ext = filepath.Ext(name)
	return strings.TrimSuffix(name, ext) + "-", ext
}

// prune removes rotated files that exceed MaxBackups or MaxAge.
func (r *rotating) prune(now time.Time) error {
	if r.MaxBackups == 0 && r.MaxAge == 0 {
		return nil
	}
	entries, err := os.ReadDir(filepath.Dir(r.Path))
	if err != nil {
		return fmt.Errorf("listing old audit logs: %w", err)
	}
	type backup struct {
		name string
		at   time.Time
	}
	var backups []backup
	prefix, ext := r.parts()
	for _, entry := range entries {
		text, ok := strings.CutPrefix(strings.TrimSuffix(entry.Name(), ext), prefix)
		if at, err := time.Parse(backupTime, text); ok && err == nil && strings.HasSuffix(entry.Name(), ext) {
			backups = append(backups, backup{entry.Name(), at})
		}
	}
	slices.SortFunc(backups, func(a, b backup) int { return cmp.Compare(b.at.UnixNano(), a.at.UnixNano()) })
	var errs []error
	for i, old := range backups {
		if r.MaxBackups > 0 && i >= r.MaxBackups || r.MaxAge > 0 && now.Sub(old.at) > r.MaxAge {
			errs = append(errs, os.Remove(filepath.Join(filepath.Dir(r.Path), old.name)))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("removing old audit logs: %w", err)
	}
	return nil
}

// Close closes the file.
func (r *rotating) Close() error {
	if r.out == nil {
		return nil
	}
	err := r.out.Close()
	r.out = nil
	return err
}

// keepOpen is a stream that other code uses too, so that Close leaves it open.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }
