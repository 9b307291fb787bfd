package stats

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

const (
	// maxFile bounds how much of a file of the kernel is read, in bytes.
	maxFile = 256 << 10
	// tick is the unit of the kernel's CPU times (USER_HZ, 100 a second on every platform).
	tick = 10 * time.Millisecond
)

// machine reads what the kernel reports about the whole machine, below /proc.
type machine struct{ proc fs.FS }

// lines returns the lines of a file of the kernel.
func (m machine) lines(name string) ([]string, error) {
	file, err := m.proc.Open(name)
	if err != nil {
		return nil, fmt.Errorf("reading the machine's state: %w", err)
	}
	defer func() { _ = file.Close() }()
	var lines []string
	scanner := bufio.NewScanner(io.LimitReader(file, maxFile))
	scanner.Buffer(nil, maxFile) // The line of interrupts is long.
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("reading the machine's state in %s: %w", name, err)
	}
	return lines, nil
}

// number returns the number in the first field of a file.
func (m machine) number(name string) (int64, error) {
	lines, err := m.lines(name)
	if err != nil {
		return 0, err
	}
	if len(lines) == 0 {
		return 0, fmt.Errorf("reading the machine's state: %s is empty", name)
	}
	value, err := strconv.ParseInt(strings.TrimSpace(lines[0]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the machine's state in %s: %w", name, err)
	}
	return value, nil
}

// processor returns the CPU time that the machine has used, in nanoseconds of one core, and when it booted.
func (m machine) processor() (used uint64, boot time.Time, err error) {
	lines, err := m.lines("stat")
	if err != nil {
		return 0, time.Time{}, err
	}
	found := false
	for _, line := range lines {
		fields := strings.Fields(line)
		switch {
		case len(fields) >= 9 && fields[0] == "cpu":
			// user nice system idle iowait irq softirq steal; guests are part of the first two.
			for _, at := range []int{1, 2, 3, 6, 7, 8} {
				ticks, err := strconv.ParseUint(fields[at], 10, 64)
				if err != nil {
					return 0, time.Time{}, fmt.Errorf("reading the machine's CPU time: %w", err)
				}
				used += ticks * uint64(tick)
			}
			found = true
		case len(fields) == 2 && fields[0] == "btime":
			seconds, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return 0, time.Time{}, fmt.Errorf("reading when the machine booted: %w", err)
			}
			boot = time.Unix(seconds, 0)
		}
	}
	if !found {
		return 0, time.Time{}, errors.New("reading the machine's CPU time: stat has no line cpu")
	}
	return used, boot, nil
}

// counters returns the numbers of a file whose lines are a name, perhaps with a colon, and a number. Amounts
// in kilobytes become bytes.
func (m machine) counters(name string) (map[string]uint64, error) {
	lines, err := m.lines(name)
	if err != nil {
		return nil, err
	}
	found := map[string]uint64{}
	for _, line := range lines {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		value, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			continue
		}
		if len(fields) == 3 && fields[2] == "kB" {
			value <<= 10
		}
		found[strings.TrimSuffix(fields[0], ":")] = value
	}
	return found, nil
}

// memory returns the machine's memory and swap space. Its pages for huge pages are available to nothing else.
func (m machine) memory(now metav1.Time) (*statsapi.MemoryStats, *statsapi.SwapStats, error) {
	info, err := m.counters("meminfo")
	if err != nil {
		return nil, nil, err
	}
	for _, name := range []string{"MemTotal", "MemFree", "Inactive(file)"} {
		if _, ok := info[name]; !ok {
			return nil, nil, fmt.Errorf("reading the machine's memory: no line %s", name)
		}
	}
	used := less(info["MemTotal"], info["MemFree"])
	working := less(used, info["Inactive(file)"])
	available := less(less(info["MemTotal"], working), info["HugePages_Total"]*info["Hugepagesize"])
	rss := info["AnonPages"]
	memory := &statsapi.MemoryStats{Time: now, UsageBytes: &used, WorkingSetBytes: &working, AvailableBytes: &available, RSSBytes: &rss}
	if events, err := m.counters("vmstat"); err == nil {
		all, major := events["pgfault"], events["pgmajfault"]
		memory.PageFaults, memory.MajorPageFaults = &all, &major
	}
	free, swapped := info["SwapFree"], less(info["SwapTotal"], info["SwapFree"])
	return memory, &statsapi.SwapStats{Time: now, SwapAvailableBytes: &free, SwapUsageBytes: &swapped}, nil
}

// less returns a-b, or 0 if b is larger.
func less(a, b uint64) uint64 { return a - min(a, b) }

// pressure returns the kernel's pressure stall information of cpu, memory or io; nil if it keeps none.
func (m machine) pressure(of string) *statsapi.PSIStats {
	lines, err := m.lines("pressure/" + of)
	if err != nil {
		return nil
	}
	found := &statsapi.PSIStats{}
	for _, line := range lines {
		kind, values, _ := strings.Cut(line, " ")
		switch kind {
		case "some":
			found.Some = stall(values)
		case "full":
			found.Full = stall(values)
		}
	}
	return found
}

func stall(text string) (d statsapi.PSIData) {
	for field := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(field, "=")
		if name == "total" {
			d.Total, _ = strconv.ParseUint(value, 10, 64)
			continue
		}
		number, _ := strconv.ParseFloat(value, 64)
		switch name {
		case "avg10":
			d.Avg10 = number
		case "avg60":
			d.Avg60 = number
		case "avg300":
			d.Avg300 = number
		}
	}
	return d
}

// processes returns how many processes there are and may be.
func (m machine) processes(now metav1.Time) *statsapi.RlimitStats {
	found := &statsapi.RlimitStats{Time: now}
	for _, name := range []string{"sys/kernel/pid_max", "sys/kernel/threads-max"} {
		if limit, err := m.number(name); err == nil && (found.MaxPID == nil || *found.MaxPID > limit) {
			found.MaxPID = &limit
		}
	}
	if lines, err := m.lines("loadavg"); err == nil && len(lines) > 0 {
		if fields := strings.Fields(lines[0]); len(fields) > 3 {
			_, all, _ := strings.Cut(fields[3], "/")
			if count, err := strconv.ParseInt(all, 10, 64); err == nil {
				found.NumOfRunningProcesses = &count
			}
		}
	}
	return found
}

const (
	// defaultInterface is the interface whose traffic is that of the node (the kubelet's choice).
	defaultInterface = "eth0"
	// maxInterfaces bounds how many interfaces are reported.
	maxInterfaces = 64
)

// network returns the traffic of the machine's own interfaces; nil if the kernel does not tell.
func (m machine) network(now metav1.Time) *statsapi.NetworkStats {
	lines, err := m.lines("net/dev")
	if err != nil {
		return nil
	}
	found := &statsapi.NetworkStats{Time: now}
	for _, line := range lines {
		name, counters, ok := strings.Cut(strings.TrimSpace(line), ":")
		fields := strings.Fields(counters)
		if !ok || len(fields) < 16 || virtual(name) || len(found.Interfaces) >= maxInterfaces {
			continue
		}
		number := func(at int) *uint64 {
			value, err := strconv.ParseUint(fields[at], 10, 64)
			if err != nil {
				return nil
			}
			return &value
		}
		// bytes packets errs drop fifo frame compressed multicast, first received, then sent.
		one := statsapi.InterfaceStats{Name: name, RxBytes: number(0), RxErrors: number(2), TxBytes: number(8), TxErrors: number(10)}
		found.Interfaces = append(found.Interfaces, one)
		if name == defaultInterface {
			found.InterfaceStats = one
		}
	}
	return found
}

// virtual reports whether an interface is not counted as one of the machine.
func virtual(name string) bool {
	for _, prefix := range []string{"lo", "veth", "docker", "nerdctl"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
