package volumes

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// mountMemory mounts a tmpfs of size bytes (the kernel's default when 0) at dir, unless one
// is there.
func mountMemory(dir string, size int64) error {
	points, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	if slices.Contains(points, dir) {
		return nil
	}
	options := ""
	if size > 0 {
		options = fmt.Sprintf("size=%d", size)
	}
	return os.NewSyscallError("mount", syscall.Mount("tmpfs", dir, "tmpfs", 0, options))
}

// unmountBelow unmounts whatever is mounted at dir or below it, innermost first.
func unmountBelow(dir string) error {
	points, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	slices.Reverse(points)
	for _, point := range points {
		if err := syscall.Unmount(point, syscall.MNT_DETACH); err != nil {
			return fmt.Errorf("unmounting %s: %w", point, err)
		}
	}
	return nil
}

// mountsBelow lists the mount points at dir and below it, in the order of their mounting.
func mountsBelow(dir string) ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading the mounts: %w", err)
	}
	defer func() { _ = f.Close() }()
	var points []string
	lines := bufio.NewScanner(f)
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
