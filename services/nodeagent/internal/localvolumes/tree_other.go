//go:build !linux

package localvolumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// checkFolder returns an error unless name is a directory in dir, and no link to one.
func checkFolder(dir, name string) error {
	info, err := os.Lstat(filepath.Join(dir, name))
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("path %q is a link", filepath.Join(dir, name))
	case !info.IsDir():
		return fmt.Errorf("path %q is not a directory", filepath.Join(dir, name))
	}
	return nil
}

// makeFolder creates the directory name in dir, open to all users.
func makeFolder(dir, name string) error {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	return errors.Join(os.Mkdir(path, os.ModePerm), os.Chmod(path, os.ModePerm))
}

// removeTree removes name in dir with everything in it.
func removeTree(_ context.Context, dir, name string, _ func(removed int)) error {
	return os.RemoveAll(filepath.Join(dir, name))
}

// ownTree is supported on Linux only: containers run nowhere else.
func ownTree(context.Context, string, string, int, bool) error {
	return errors.New("fsGroup is supported on Linux only")
}
