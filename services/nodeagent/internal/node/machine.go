package node

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	goruntime "runtime"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The kubelet's default hard eviction thresholds, reserved for everything that is not a pod.
const (
	reservedMemory = 100 << 20
	storageShare   = 0.9
	// freeDisk is sufficient free space, in bytes, whatever its share of the disk.
	freeDisk = 1 << 30
	// freePIDs is the sufficient number of free process IDs.
	freePIDs = 1000
)

// memory returns the value of a line of /proc/meminfo, in bytes.
func memory(name string) (int64, error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("reading the machine's memory: %w", err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == name+":" {
			kilobytes, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("reading the machine's memory: %w", err)
			}
			return kilobytes << 10, nil
		}
	}
	return 0, errors.Join(lines.Err(), fmt.Errorf("reading the machine's memory: no line %s", name))
}

// disk returns the size and the free space of the file system of dir, in bytes.
func disk(dir string) (size, free int64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, 0, fmt.Errorf("reading the size of the file system of %s: %w", dir, err)
	}
	block := int64(s.Bsize)                                      //nolint:unconvert // its type differs by platform
	return int64(s.Blocks) * block, int64(s.Bavail) * block, nil //nolint:gosec // a disk has less than 8 EiB
}

// capacity returns the machine's resources and the part of them that pods may use.
func capacity(dir string, maxPods int) (all, allocatable corev1.ResourceList, err error) {
	total, err := memory("MemTotal")
	if err != nil {
		return nil, nil, err
	}
	size, _, err := disk(dir)
	if err != nil {
		return nil, nil, err
	}
	all = corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(int64(goruntime.NumCPU()), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(total, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(size, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(int64(maxPods), resource.DecimalSI),
	}
	allocatable = all.DeepCopy()
	allocatable[corev1.ResourceMemory] = *resource.NewQuantity(max(0, total-reservedMemory), resource.BinarySI)
	allocatable[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(float64(size)*storageShare), resource.BinarySI)
	return all, allocatable, nil
}

// systemInfo describes the machine; what cannot be read stays empty.
func systemInfo(runtimeVersion string) corev1.NodeSystemInfo {
	return corev1.NodeSystemInfo{
		MachineID:               text("/etc/machine-id"),
		SystemUUID:              text("/sys/class/dmi/id/product_uuid"),
		BootID:                  text("/proc/sys/kernel/random/boot_id"),
		KernelVersion:           text("/proc/sys/kernel/osrelease"),
		OSImage:                 osImage(),
		ContainerRuntimeVersion: runtimeVersion,
		KubeletVersion:          KubeletVersion,
		OperatingSystem:         goruntime.GOOS,
		Architecture:            goruntime.GOARCH,
	}
}

func text(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func osImage() string {
	for line := range strings.Lines(text("/etc/os-release")) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(value, `"'`)
		}
	}
	return goruntime.GOOS
}

// Address returns the machine's own address: the source address of its default route.
func Address() (string, error) {
	// Nothing is sent: connecting a UDP socket only asks the kernel for a route.
	if conn, err := net.Dial("udp", "192.0.2.1:9"); err == nil {
		defer func() { _ = conn.Close() }()
		if address, ok := conn.LocalAddr().(*net.UDPAddr); ok && !address.IP.IsUnspecified() {
			return address.IP.String(), nil
		}
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("finding the node's address: %w", err)
	}
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok && network.IP.IsGlobalUnicast() {
			return network.IP.String(), nil
		}
	}
	return "127.0.0.1", nil // A machine without a network can still run pods.
}

// pids returns the number of free process IDs.
func pids() (int64, error) {
	limit, err := strconv.ParseInt(text("/proc/sys/kernel/pid_max"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the maximum number of processes: %w", err)
	}
	fields := strings.Fields(text("/proc/loadavg"))
	if len(fields) < 4 {
		return 0, errors.New("reading the number of processes: /proc/loadavg is too short")
	}
	_, all, _ := strings.Cut(fields[3], "/")
	running, err := strconv.ParseInt(all, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the number of processes: %w", err)
	}
	return limit - running, nil
}
