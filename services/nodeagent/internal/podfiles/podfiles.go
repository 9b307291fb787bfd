// Package podfiles has the files that the node agent provides to the containers of a pod, and that
// these may change as they like: the hosts file, and the files for termination messages.
package podfiles

import (
	"errors"
	"os"
	"syscall"
)

// Overwrite replaces the content of a file that a container may have mounted. It writes to the
// existing file and reads none of it.
func Overwrite(path string, text []byte, mode os.FileMode) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteAt(text, 0); err != nil {
		return err
	}
	if err := f.Truncate(int64(len(text))); err != nil {
		return err
	}
	// OpenFile's mode is subject to the umask.
	return f.Chmod(mode)
}
