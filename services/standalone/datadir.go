package standalone

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// dataDir is the folder of everything that outlives the process, locked against a second process.
type dataDir struct{ lock *os.File }

// openDataDir creates the folder if it is missing, and locks it.
func openDataDir(path string) (*dataDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("the data folder cannot be created: %w; choose another with --data-dir", err)
	}
	name := filepath.Join(path, "lock")
	lock, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the data folder cannot be written: %w; choose another with --data-dir, or fix its permissions", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		owner := make([]byte, 16)
		n, _ := lock.ReadAt(owner, 0)
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("the data folder %s is in use by process %s; stop that one, or choose another folder with --data-dir", path, strings.TrimSpace(string(owner[:n])))
		}
		return nil, fmt.Errorf("locking the data folder %s: %w", path, err)
	}
	if err := errors.Join(lock.Truncate(0), writeAt(lock, fmt.Sprintln(os.Getpid()))); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("the data folder %s cannot be written: %w; choose another with --data-dir", path, err)
	}
	return &dataDir{lock: lock}, nil
}

// close releases the folder for the next process.
func (d *dataDir) close() error { return d.lock.Close() }

func writeAt(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}
