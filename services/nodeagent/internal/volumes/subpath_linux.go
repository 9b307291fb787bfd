package volumes

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxRaces bounds how often a path that changes meanwhile is opened again.
const maxRaces = 64

// beneath allows links to lead anywhere inside the volume, but not outside. Magic links, as in
// /proc, are not followed: they lead to open files wherever those are.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS

// openSubPath opens sub in the volume at root and creates missing directories. The returned file
// can only be stat'ed and mounted (O_PATH).
func openSubPath(root, sub string) (*os.File, error) {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "opening the volume", Path: root, Err: err}
	}
	volume := os.NewFile(uintptr(fd), root)
	defer func() { _ = volume.Close() }()
	found, err := openAt(volume, sub, 0, beneath)
	if errors.Is(err, unix.ENOENT) {
		found, err = makeSubPath(volume, sub)
	}
	switch {
	case errors.Is(err, unix.EXDEV):
		return nil, fmt.Errorf("the subPath %q leads out of the volume", sub)
	case errors.Is(err, unix.ELOOP):
		return nil, fmt.Errorf("the subPath %q leads over a link that cannot be followed", sub)
	case errors.Is(err, unix.ENOSYS):
		return nil, fmt.Errorf("the subPath %q cannot be opened safely: the kernel has no openat2, which is in Linux 5.6 and newer: %w", sub, err)
	case err != nil:
		return nil, fmt.Errorf("the subPath %q: %w", sub, err)
	}
	return found, nil
}

// openAt opens path, relative to dir, with resolve's restrictions.
func openAt(dir *os.File, path string, flags, resolve uint64) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_CLOEXEC | flags, Resolve: resolve}
	if flags == 0 {
		how.Flags |= unix.O_PATH
	}
	for try := 1; ; try++ {
		fd, err := unix.Openat2(int(dir.Fd()), path, &how)
		if err == nil {
			return os.NewFile(uintptr(fd), path), nil
		}
		// The kernel could not determine whether a ".." stayed beneath, because of a rename.
		if again := errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR); !again || try == maxRaces {
			return nil, err
		}
	}
}

// makeSubPath opens the directories of sub one by one and creates missing ones with the mode of the
// volume's own (the kubelet's rule).
func makeSubPath(volume *os.File, sub string) (*os.File, error) {
	info, err := volume.Stat()
	if err != nil {
		return nil, err
	}
	mode := info.Mode() & (os.ModePerm | os.ModeSetgid)
	dir := volume
	making := false
	names := strings.Split(filepath.Clean(sub), string(filepath.Separator))
	for i, name := range names {
		var next *os.File
		if !making {
			next, err = openAt(volume, filepath.Join(names[:i+1]...), 0, beneath)
			making = errors.Is(err, unix.ENOENT)
		}
		if making {
			next, err = makeDir(dir, name, mode)
		}
		if dir != volume {
			_ = dir.Close()
		}
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

// makeDir creates the directory name in dir and opens it.
func makeDir(dir *os.File, name string, mode os.FileMode) (*os.File, error) {
	err := unix.Mkdirat(int(dir.Fd()), name, 0o700)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, os.NewSyscallError("mkdirat", err)
	}
	mine := err == nil
	made, err := openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, beneath|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return nil, err
	}
	if !mine {
		return made, nil
	}
	// By now a container may have put another directory in its place, which must not be opened to
	// others: only an empty one is.
	if _, err := made.Readdirnames(1); !errors.Is(err, io.EOF) {
		return made, nil
	}
	if err := made.Chmod(mode); err != nil {
		return nil, errors.Join(err, made.Close())
	}
	return made, nil
}
