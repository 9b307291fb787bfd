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

// Stdout is the path that stands for the standard output.
const Stdout = "-"

// backupTime is how the time at which a file was put aside is written in its name.
const backupTime = "2006-01-02T15-04-05.000"

// File says where events are written. When a file has reached its size it is put aside as
// NAME-TIME.EXT and a new one begun.
type File struct {
	// Path is the file, or Stdout.
	Path string
	// MaxSize is the size in bytes at which a file is put aside; 0 for never.
	MaxSize int64
	// MaxAge is how long files that were put aside are kept; 0 for ever.
	MaxAge time.Duration
	// MaxBackups is how many of them are kept; 0 for all.
	MaxBackups int
}

// rotating is an open log file. It is used by one goroutine. (Its kind exists as a library,
// which starts a goroutine that never ends.)
type rotating struct {
	File
	out     io.WriteCloser
	size    int64
	trouble func(error) // told what does not keep events from being written
}

func (f File) open(trouble func(error)) (*rotating, error) {
	r := &rotating{File: f, trouble: trouble}
	if f.Path == Stdout {
		r.out = keepOpen{os.Stdout}
		return r, nil
	}
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the audit log: %w", err)
	}
	return r, r.begin()
}

// begin opens the file, which may have content.
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

// write writes whole lines, putting the file aside between them where it is full.
func (r *rotating) write(lines [][]byte) error {
	var joined []byte
	for _, line := range lines {
		if r.full(len(joined) + len(line)) {
			if err := r.append(joined); err != nil {
				return err
			}
			joined = joined[:0]
			if err := r.rotate(); err != nil {
				r.trouble(err) // The file grows for as long as that lasts.
			}
		}
		joined = append(joined, line...)
	}
	return r.append(joined)
}

// full says whether the file, if anything is in it, is too large for n bytes more.
func (r *rotating) full(n int) bool {
	return r.MaxSize > 0 && r.Path != Stdout && r.size > 0 && r.size+int64(n) > r.MaxSize
}

func (r *rotating) append(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if r.out == nil { // It could not be opened after the last was put aside.
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

// rotate puts the file aside, begins a new one and removes old ones.
func (r *rotating) rotate() error {
	if err := r.Close(); err != nil {
		return fmt.Errorf("closing the audit log: %w", err)
	}
	if err := os.Rename(r.Path, r.backup(time.Now())); err != nil {
		return fmt.Errorf("putting the audit log aside: %w", err)
	}
	return errors.Join(r.begin(), r.prune(time.Now()))
}

// backup is a name that is not taken for a file that is put aside now.
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

// prune removes files that were put aside and are too many or too old.
func (r *rotating) prune(now time.Time) error {
	if r.MaxBackups == 0 && r.MaxAge == 0 {
		return nil
	}
	entries, err := os.ReadDir(filepath.Dir(r.Path))
	if err != nil {
		return fmt.Errorf("looking for old audit logs: %w", err)
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

// keepOpen is a stream that others use too.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }
