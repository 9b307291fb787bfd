package harness

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// clean removes what an exited containerd left behind: shims and their containers, mounts, the
// bridge, the folder.
func clean(dir string) error {
	var faults []error
	// A shim's command line contains the address of its containerd; a container dies with its
	// shim's children.
	for _, pid := range processesOf(dir) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err := Unmount(dir); err != nil {
		faults = append(faults, err)
	}
	if cgroup, err := os.ReadFile(filepath.Join(dir, "cgroup")); err == nil {
		if err := removeCgroup(string(cgroup)); err != nil {
			faults = append(faults, err)
		}
	}
	if bridge, err := os.ReadFile(filepath.Join(dir, "bridge")); err == nil {
		if err := removeBridge(string(bridge)); err != nil {
			faults = append(faults, err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// processesOf returns the containerd processes whose command line contains the folder.
func processesOf(dir string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		command, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err == nil && strings.Contains(string(command), dir+"/") && strings.Contains(string(command), "containerd") {
			found = append(found, pid)
		}
	}
	return found
}

// removeCgroup removes a cgroup and everything below it, in every hierarchy of cgroup v1 or in v2.
// The runtime creates a pod's parent cgroup but does not remove it.
func removeCgroup(cgroup string) error {
	var faults []error
	for _, pattern := range []string{"/sys/fs/cgroup" + cgroup, "/sys/fs/cgroup/*" + cgroup} {
		roots, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, root := range roots {
			var folders []string
			err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
				if err == nil && entry.IsDir() {
					folders = append(folders, path)
				}
				return nil
			})
			faults = append(faults, err)
			for _, folder := range slices.Backward(folders) {
				if err := syscall.Rmdir(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
					faults = append(faults, fmt.Errorf("removing the cgroup %s: %w", folder, err))
				}
			}
		}
	}
	return errors.Join(faults...)
}

// Unmount detaches all mounts below a folder, innermost first: volumes of a node agent that was
// killed, or that left its containers to the next one.
func Unmount(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no mounts on this system
	}
	if err != nil {
		return fmt.Errorf("reading the mounts: %w", err)
	}
	var points []string
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
			points = append(points, fields[1])
		}
	}
	slices.Reverse(points)
	var faults []error
	for _, point := range points {
		if err := detach(point); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// sweep cleans up after test processes that were killed before they could.
func sweep(t testing.TB) {
	old, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range old {
		owner, err := os.ReadFile(filepath.Join(dir, "owner"))
		if err != nil {
			continue // not set up yet
		}
		pid, err := strconv.Atoi(string(owner))
		if err != nil || alive(pid) {
			continue
		}
		t.Logf("cleaning up after the killed test process %d: %s", pid, dir)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := removePods(ctx, filepath.Join(dir, "containerd.sock")); err != nil {
			t.Logf("removing its pods: %v", err)
		}
		cancel()
		if content, err := os.ReadFile(filepath.Join(dir, "containerd.pid")); err == nil {
			if daemon, err := strconv.Atoi(string(content)); err == nil && slices.Contains(processesOf(dir), daemon) {
				_ = syscall.Kill(daemon, syscall.SIGKILL)
			}
		}
		if err := clean(dir); err != nil {
			t.Logf("cleaning up: %v", err)
		}
	}
}

// alive reports whether a process runs. A zombie has no command line.
func alive(pid int) bool {
	command, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && len(command) > 0
}
