// Package measure measures the cost of processes on this machine, and prints tables.
package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of the CPU times in /proc, the same for all programs on Linux.
const clockTick = 10 * time.Millisecond

// Process is a process to measure.
type Process struct {
	// Name is its name in tables.
	Name string
	PID  int
}

// CPU returns the time that the process has used, in user and kernel mode, with a resolution of 10
// ms.
func (p Process) CPU() (time.Duration, error) { return p.times(11, 13) } // utime and stime

// Family returns the CPU time of the process's threads, in nanoseconds as the scheduler counts them, and of its
// children that have ended. It leaves out threads that have ended, of which Go programs have few.
func (p Process) Family() (time.Duration, error) {
	used, err := p.times(13, 15) // cutime and cstime
	if err != nil {
		return 0, err
	}
	files, err := filepath.Glob(p.file("task/*/schedstat"))
	if err != nil {
		return 0, fmt.Errorf("listing the threads of the %s: %w", p.Name, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // It has ended.
		}
		first, _, _ := strings.Cut(string(data), " ")
		n, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading the CPU time of a thread of the %s: %w", p.Name, err)
		}
		used += time.Duration(n)
	}
	return used, nil
}

// times returns the sum of fields of the process's stat file.
func (p Process) times(from, to int) (time.Duration, error) {
	data, err := os.ReadFile(p.file("stat"))
	if err != nil {
		return 0, fmt.Errorf("reading the CPU time of the %s: %w", p.Name, err)
	}
	// The second field, a name in parentheses, may contain anything.
	_, rest, ok := strings.Cut(string(data[strings.LastIndexByte(string(data), ')'):]), " ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < to {
		return 0, fmt.Errorf("reading the CPU time of the %s: %q is not a stat file", p.Name, data)
	}
	var used time.Duration
	for _, field := range fields[from:to] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading the CPU time of the %s: %w", p.Name, err)
		}
		used += time.Duration(ticks) * clockTick
	}
	return used, nil
}

// Resident returns the process's resident memory, in bytes.
func (p Process) Resident() (int64, error) { return p.memory("VmRSS") }

// Anonymous returns the part of Resident that belongs to no file: heap and stacks.
func (p Process) Anonymous() (int64, error) { return p.memory("RssAnon") }

// Mapped returns the part of Resident that belongs to files, in bytes by the file's path.
func (p Process) Mapped() (map[string]int64, error) {
	data, err := os.ReadFile(p.file("smaps"))
	if err != nil {
		return nil, fmt.Errorf("reading the mapped files of the %s: %w", p.Name, err)
	}
	mapped := map[string]int64{}
	var path string
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) > 0 && !strings.HasSuffix(fields[0], ":"): // a mapping's first line
			path = strings.Join(fields[min(5, len(fields)):], " ")
		case strings.HasPrefix(path, "/") && len(fields) > 1 && (fields[0] == "Rss:" || fields[0] == "Anonymous:"):
			kilobytes, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("reading the mapped files of the %s: %w", p.Name, err)
			}
			if fields[0] == "Anonymous:" {
				kilobytes = -kilobytes // pages of the file that were written
			}
			mapped[path] += kilobytes << 10
		}
	}
	return mapped, nil
}

// Peak returns the largest resident memory, in bytes, since the start or the last ResetPeak.
func (p Process) Peak() (int64, error) { return p.memory("VmHWM") }

// ResetPeak restarts the measurement of Peak.
func (p Process) ResetPeak() error {
	if err := os.WriteFile(p.file("clear_refs"), []byte("5"), 0); err != nil {
		return fmt.Errorf("resetting the peak memory of the %s: %w", p.Name, err)
	}
	return nil
}

func (p Process) memory(what string) (int64, error) {
	data, err := os.ReadFile(p.file("status"))
	if err != nil {
		return 0, fmt.Errorf("reading the memory of the %s: %w", p.Name, err)
	}
	_, after, ok := strings.Cut(string(data), what+":")
	fields := strings.Fields(after)
	if !ok || len(fields) == 0 {
		return 0, fmt.Errorf("reading the memory of the %s: its status has no %s", p.Name, what)
	}
	kilobytes, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the memory of the %s: %w", p.Name, err)
	}
	return kilobytes << 10, nil
}

func (p Process) file(name string) string {
	return filepath.Join("/proc", strconv.Itoa(p.PID), name)
}
