package harness

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// Left returns what pods have left behind in and around containerd: address leases, network
// interfaces on the bridge, processes, mounts. It is empty once every pod is removed.
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
	for _, pid := range processesOf(c.dir) {
		command, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "cmdline"))
		if err == nil && strings.Contains(string(command), "containerd-shim") {
			left = append(left, "the process "+strings.ReplaceAll(strings.TrimRight(string(command), "\x00"), "\x00", " "))
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
