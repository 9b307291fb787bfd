package podlifecycle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// SweepLogs removes the logs that Collect does not reach: directories of pods that never had a
// sandbox, and dangling links, left when an agent did not complete the removal of a log. pod and
// container report whether the one with this UID or ID is known; its logs stay.
func (l *Lifecycle) SweepLogs(pod, container func(id string) bool) error {
	var faults []error
	for _, name := range names(filepath.Join(l.cfg.LogDir, "pods"), &faults) {
		uid := name[strings.LastIndexByte(name, '_')+1:]
		if pod(uid) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(l.cfg.LogDir, "pods", name)); err != nil {
			faults = append(faults, fmt.Errorf("removing the logs of a pod that is gone: %w", err))
		}
	}
	links := filepath.Join(l.cfg.LogDir, "containers")
	for _, name := range names(links, &faults) {
		id := strings.TrimSuffix(name[strings.LastIndexByte(name, '-')+1:], ".log")
		// A log that is being rotated is missing for a moment.
		if container(id) {
			continue
		}
		link := filepath.Join(links, name)
		if _, err := os.Stat(link); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			faults = append(faults, fmt.Errorf("removing the link to a log that is gone: %w", err))
		}
	}
	return errors.Join(faults...)
}

// names returns the entries of a directory; none if it does not exist.
func names(dir string, faults *[]error) []string {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		*faults = append(*faults, fmt.Errorf("looking for unwanted logs: %w", err))
	}
	found := make([]string, 0, len(entries))
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	return found
}
