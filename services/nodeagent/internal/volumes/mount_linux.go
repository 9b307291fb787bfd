package volumes

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mountMemory mounts a tmpfs at dir with the given mode and size in bytes (the kernel's default
// when 0), unless something is mounted there. It reports whether it did. Where the kernel supports
// it (Linux 6.4), the pages are never swapped out.
func mountMemory(dir string, size int64, mode os.FileMode) (bool, error) {
	mounted, err := isMountPoint(dir)
	if mounted || err != nil {
		return false, err
	}
	options := fmt.Sprintf("mode=%o", mode)
	if size > 0 {
		options += fmt.Sprintf(",size=%d", size)
	}
	err = unix.Mount("tmpfs", dir, "tmpfs", 0, options+",noswap")
	if errors.Is(err, unix.EINVAL) {
		err = unix.Mount("tmpfs", dir, "tmpfs", 0, options)
	}
	return err == nil, os.NewSyscallError("mount", err)
}

// bindFile bind-mounts the open file source at target, whatever its name leads to by now.
func bindFile(source *os.File, target string) error {
	path := fmt.Sprintf("/proc/self/fd/%d", source.Fd())
	return os.NewSyscallError("mount", unix.Mount(path, target, "", unix.MS_BIND, ""))
}

// isMountPoint reports whether something is mounted at path. It does not follow a link at path. A
// missing path is not a mount point.
func isMountPoint(path string) (bool, error) {
	var s unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &s)
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case err == nil && s.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0:
		return s.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
	}
	// The kernel is older than Linux 5.8, or the file system does not report the attribute.
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false, fmt.Errorf("looking for a mount: %w", err)
	}
	points, err := mountsBelow(resolved)
	return slices.Contains(points, resolved), err
}

// unmount removes every mount at path itself.
func unmount(path string) error {
	for range maxNames {
		mounted, err := isMountPoint(path)
		if !mounted || err != nil {
			return err
		}
		if err := detach(path); err != nil {
			return err
		}
	}
	return fmt.Errorf("something is still mounted at %s", path)
}

// detach unmounts the topmost mount at path, immediately for all later users.
func detach(path string) error {
	if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("unmounting %s: %w", path, err)
	}
	return nil
}

// unmountBelow unmounts everything at dir and below it, innermost first. If it returns nil, nothing
// is mounted there any more.
func unmountBelow(dir string) error {
	points, err := mountsBelow(dir)
	if err != nil || len(points) == 0 {
		return err
	}
	slices.Reverse(points)
	for _, point := range points {
		if err := detach(point); err != nil {
			return err
		}
	}
	if points, err = mountsBelow(dir); err != nil {
		return err
	}
	if len(points) > 0 {
		return fmt.Errorf("something is still mounted at %s", points[0])
	}
	return nil
}

// mountsBelow lists the mount points at dir and below it, in mount order.
func mountsBelow(dir string) ([]string, error) {
	// The kernel lists resolved paths.
	dir, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("resolving the directory of mounts: %w", err)
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading the mounts: %w", err)
	}
	defer func() { _ = f.Close() }()
	var points []string
	lines := bufio.NewScanner(f)
	// A line holds two paths, and options of up to a page.
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		// The kernel writes space, tab, newline and backslash in octal.
		point := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(fields[4])
		if point == dir || strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	return points, lines.Err()
}
