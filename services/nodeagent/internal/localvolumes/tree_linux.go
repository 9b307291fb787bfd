package localvolumes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// beneath opens only what is really in a directory: no link is followed, and no mount is entered.
	beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV
	// maxRaces bounds how often a path that changes meanwhile is opened again.
	maxRaces = 64
	// maxDepth bounds how many directories are open at a time.
	maxDepth = 64
	// maxOwned bounds how deep a tree may be that is given to a group. (The kubelet's limit is the longest
	// path, 4,096 bytes.)
	maxOwned = 512
	// chunk is how many names are read from a directory at a time.
	chunk = 512
	// aside begins the names of directories that were moved to be removed.
	aside = ".garboard-removing-"
)

// openDir opens the agent's own directory of folders.
func openDir(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// openAt opens name in dir.
func openAt(dir *os.File, name string, flags, resolve uint64) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_CLOEXEC | unix.O_NOFOLLOW | flags, Resolve: resolve}
	for try := 1; ; try++ {
		fd, err := unix.Openat2(int(dir.Fd()), name, &how)
		if err == nil {
			return os.NewFile(uintptr(fd), name), nil
		}
		if again := errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR); !again || try == maxRaces {
			return nil, &os.PathError{Op: "openat2", Path: name, Err: err}
		}
	}
}

// checkFolder returns an error unless name is a directory in dir, and no link to one. An administrator may
// have mounted a file system there.
func checkFolder(dir, name string) error {
	parent, err := openDir(dir)
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }()
	folder, err := openAt(parent, name, unix.O_PATH, beneath&^unix.RESOLVE_NO_XDEV)
	if errors.Is(err, unix.ELOOP) {
		return fmt.Errorf("path %q is a link", dir+"/"+name)
	}
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	info, err := folder.Stat()
	if err != nil {
		return err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("path %q is a link", dir+"/"+name)
	case !info.IsDir():
		return fmt.Errorf("path %q is not a directory", dir+"/"+name)
	}
	return nil
}

// makeFolder creates the directory name in dir, open to all users. It appears with its mode.
func makeFolder(dir, name string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	parent, err := openDir(dir)
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }()
	fd, temporary := int(parent.Fd()), unfinished+name
	// An agent that ended in the middle left it, empty.
	if err := unix.Unlinkat(fd, temporary, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return os.NewSyscallError("unlinkat", err)
	}
	if err := unix.Mkdirat(fd, temporary, 0o700); err != nil {
		return os.NewSyscallError("mkdirat", err)
	}
	made, err := openAt(parent, temporary, unix.O_RDONLY|unix.O_DIRECTORY, beneath)
	if err != nil {
		return err
	}
	// The mode of mkdirat is subject to the umask.
	if err := errors.Join(made.Chmod(os.ModePerm), made.Close()); err != nil {
		return err
	}
	return os.NewSyscallError("renameat2", unix.Renameat2(fd, temporary, fd, name, unix.RENAME_NOREPLACE))
}

// remover removes one tree.
type remover struct {
	root     *os.File
	progress func(removed int)
	// moved counts directories that were moved to the root, since they were too deep.
	moved, removed int
}

// removeTree removes name in dir with everything in it. A directory that is nested too deep is first moved
// to the top. It may be called again after it has failed or ctx has ended.
func removeTree(ctx context.Context, dir, name string, progress func(removed int)) error {
	parent, err := openDir(dir)
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }()
	root, err := openAt(parent, name, unix.O_RDONLY|unix.O_DIRECTORY, beneath)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	r := &remover{root: root, progress: progress}
	if err := r.empty(ctx, root, 1); err != nil {
		return err
	}
	return os.NewSyscallError("unlinkat", unix.Unlinkat(int(parent.Fd()), name, unix.AT_REMOVEDIR))
}

// empty removes everything in a directory.
func (r *remover) empty(ctx context.Context, dir *os.File, depth int) error {
	for {
		// Each round begins anew, since the directory has changed.
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return err
		}
		names, err := dir.Readdirnames(chunk)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := r.remove(ctx, dir, name, depth); err != nil {
				return err
			}
			r.removed++
		}
		r.progress(r.removed)
	}
}

// remove removes name in dir, or moves it to the root.
func (r *remover) remove(ctx context.Context, dir *os.File, name string, depth int) error {
	err := unix.Unlinkat(int(dir.Fd()), name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return &os.PathError{Op: "unlinkat", Path: name, Err: err}
	}
	if depth >= maxDepth {
		return r.moveAside(dir, name)
	}
	child, opened := openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, beneath)
	switch {
	case errors.Is(opened, unix.EXDEV):
		return fmt.Errorf("a file system is mounted at %q", name)
	case errors.Is(opened, unix.ENOTDIR):
		return &os.PathError{Op: "unlinkat", Path: name, Err: err} // A file that may not be removed.
	case opened != nil:
		return opened
	}
	defer func() { _ = child.Close() }()
	if err := r.empty(ctx, child, depth+1); err != nil {
		return err
	}
	if err := unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "unlinkat", Path: name, Err: err}
	}
	return nil
}

// moveAside moves a directory to the root, under a name that is free.
func (r *remover) moveAside(dir *os.File, name string) error {
	for {
		r.moved++
		err := unix.Renameat2(int(dir.Fd()), name, int(r.root.Fd()), aside+strconv.Itoa(r.moved), unix.RENAME_NOREPLACE)
		if !errors.Is(err, unix.EEXIST) {
			if err != nil {
				return &os.PathError{Op: "renameat2", Path: name, Err: err}
			}
			return nil
		}
	}
}

// owner gives one tree to a group.
type owner struct {
	group int
}

// ownTree gives name in dir, and everything in it, to a group that may read and write.
func ownTree(ctx context.Context, dir, name string, group int, onMismatch bool) error {
	parent, err := openDir(dir)
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }()
	// The volume may be a file system of its own.
	root, err := openAt(parent, name, unix.O_RDONLY|unix.O_DIRECTORY, beneath&^unix.RESOLVE_NO_XDEV)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if onMismatch {
		var s unix.Stat_t
		if err := unix.Fstat(int(root.Fd()), &s); err != nil {
			return os.NewSyscallError("fstat", err)
		}
		const wanted = unix.S_ISGID | 0o770
		if int(s.Gid) == group && s.Mode&wanted == wanted {
			return nil
		}
	}
	o := owner{group}
	if err := o.inside(ctx, root, 1); err != nil {
		return err
	}
	return o.own(root)
}

// inside gives everything in a directory to the group. The directory itself comes later, as a sign that
// everything in it is done.
func (o owner) inside(ctx context.Context, dir *os.File, depth int) error {
	if depth > maxOwned {
		return fmt.Errorf("directories are nested deeper than %d levels", maxOwned)
	}
	for {
		names, err := dir.Readdirnames(chunk)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := o.entry(ctx, dir, name, depth); err != nil {
				return err
			}
		}
	}
}

// entry gives name in dir to the group. What is mounted there, or is gone by now, is left alone.
func (o owner) entry(ctx context.Context, dir *os.File, name string, depth int) error {
	sub, err := openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, beneath)
	if err == nil {
		defer func() { _ = sub.Close() }()
		if err := o.inside(ctx, sub, depth+1); err != nil {
			return err
		}
		return o.own(sub)
	}
	file, err := openAt(dir, name, unix.O_PATH, beneath)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EXDEV) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return o.own(file)
}

// own gives an open file to the group, whatever its name leads to by now.
func (o owner) own(file *os.File) error {
	fd := int(file.Fd())
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if err := unix.Fchownat(fd, "", -1, o.group, unix.AT_EMPTY_PATH); err != nil {
		return os.NewSyscallError("fchownat", err)
	}
	mode := s.Mode & 0o7777
	switch s.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return nil
	case unix.S_IFDIR:
		mode |= unix.S_ISGID | 0o770
	default:
		mode |= 0o660
	}
	// A file that is open only as a path has no other name that stays the same.
	return os.NewSyscallError("chmod", unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode))
}
