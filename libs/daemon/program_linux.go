package daemon

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// programMappings returns where this process has mapped its program's file, unchanged.
func programMappings() ([]mapping, error) {
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, fmt.Errorf("finding the program's file: %w", err)
	}
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil, fmt.Errorf("reading the mappings of the process: %w", err)
	}
	defer func() { _ = file.Close() }()
	return mappings(file, path)
}

// giveBack unmaps the pages of a file, and tells the kernel that it may drop them from its cache before others. Those
// that are used again are mapped from the cache, 64 KB at a time.
func (m mapping) giveBack() error {
	for _, advice := range []uintptr{unix.MADV_COLD, unix.MADV_DONTNEED} {
		_, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(m.start), uintptr(m.end-m.start), advice)
		if errno != 0 && errno != unix.EINVAL { // Linux before 5.4 does not know MADV_COLD.
			return fmt.Errorf("returning pages of the program's file: %w", errno)
		}
	}
	return nil
}
