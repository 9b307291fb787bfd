package harness

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Left returns what pods have left behind in and around containerd: address leases, network
// interfaces on the bridge, processes, mounts. It is empty once every pod is removed.
//
// A shim that ran when containerd was killed does not count once all its containers have ended:
// a containerd that dies while it stops a sandbox may never end that shim, and no call of CRI does
// (https://github.com/containerd/containerd/issues/10421).
func (c *Containers) Left() ([]string, error) {
	var left []string
	leases, err := filepath.Glob(filepath.Join(c.dir, "ipam", "*", "*"))
	if err != nil {
		return nil, err
	}
	for _, lease := range leases {
		if address, err := netip.ParseAddr(filepath.Base(lease)); err == nil {
			left = append(left, "the address "+address.String())
		}
	}
	ports, err := filepath.Glob(filepath.Join("/sys/class/net", c.network.bridge, "brif", "*"))
	if err != nil {
		return nil, err
	}
	for _, port := range ports {
		left = append(left, "the network interface "+filepath.Base(port))
	}
	parents, err := parents()
	if err != nil {
		return nil, err
	}
	for pid, command := range c.shims() {
		if !c.orphaned[command] || parents[pid] {
			left = append(left, "the process "+command)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("reading the mounts: %w", err)
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], c.dir+"/") {
			left = append(left, "the mount "+fields[1])
		}
	}
	return left, nil
}

// shims returns the command lines of containerd's shims by process.
func (c *Containers) shims() map[int]string {
	found := make(map[int]string)
	for _, pid := range processesOf(c.dir) {
		command, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if err == nil && strings.Contains(string(command), "containerd-shim") {
			found[pid] = strings.ReplaceAll(strings.TrimRight(string(command), "\x00"), "\x00", " ")
		}
	}
	return found
}

// parents returns the processes that have children.
func parents() (map[int]bool, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	found := make(map[int]bool)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		// After the name in parentheses, which may hold anything: state, parent.
		fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
		if len(fields) < 2 {
			return nil, fmt.Errorf("reading %s: no parent in %q", file, content)
		}
		parent, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		found[parent] = true
	}
	return found, nil
}
