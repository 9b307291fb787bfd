package node

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// CgroupV2 reports whether the kernel has cgroups v2 alone.
func CgroupV2() bool {
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	return err == nil
}

// AppArmor reports whether the kernel enforces AppArmor profiles.
func AppArmor() bool {
	enabled, err := os.ReadFile("/sys/module/apparmor/parameters/enabled")
	return err == nil && strings.HasPrefix(string(enabled), "Y")
}

// HugePageSizes returns the sizes of huge pages that the kernel has, as in cgroups ("2MB").
func HugePageSizes() []string { return hugePageSizes("/sys/kernel/mm/hugepages") }

func hugePageSizes(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // The kernel has none.
	}
	var sizes []string
	for _, entry := range entries {
		text, _ := strings.CutPrefix(entry.Name(), "hugepages-")
		text, ok := strings.CutSuffix(text, "kB")
		kilobytes, err := strconv.Atoi(text)
		switch {
		case !ok || err != nil:
		case kilobytes >= 1<<20:
			sizes = append(sizes, fmt.Sprintf("%dGB", kilobytes>>20))
		case kilobytes >= 1<<10:
			sizes = append(sizes, fmt.Sprintf("%dMB", kilobytes>>10))
		default:
			sizes = append(sizes, fmt.Sprintf("%dKB", kilobytes))
		}
	}
	slices.Sort(sizes)
	return sizes
}

// ThrottlePaths returns the directories that show how hot each processor is, from which containers
// could tell what their neighbours do. Containers do not see them (the kubelet's masked paths).
func ThrottlePaths() []string { return throttlePaths("/sys/devices/system/cpu") }

func throttlePaths(dir string) []string {
	paths, err := filepath.Glob(filepath.Join(dir, "cpu[0-9]*", "thermal_throttle"))
	if err != nil {
		return nil // The pattern is well-formed.
	}
	return paths
}
