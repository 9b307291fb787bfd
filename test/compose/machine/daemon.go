package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Bounds of the daemon's start, and of its shutdown including its containers.
const (
	startTimeout = 3 * time.Minute
	endTimeout   = 3 * time.Minute
	pollInterval = 200 * time.Millisecond
)

// runtimeName is Docker's name for the runtime that adapts containers to the machine.
const runtimeName = "fitted"

// start starts the daemon unless one answers, and reports whether it did.
func (m *machine) start(ctx context.Context) (bool, error) {
	lacking, err := lacksCapabilities()
	if err != nil {
		return false, err
	}
	if used, err := output(ctx, "docker", "info", "--format", "{{.DefaultRuntime}}"); err == nil {
		if lacking && used != runtimeName {
			fmt.Fprintf(os.Stderr, "machine: the Docker that runs here uses the runtime %s, and this machine lacks capabilities: its privileged containers may not start\n", used)
		}
		return false, nil
	}
	args := []string{
		"--pidfile", m.pidFile(), "--data-root", m.data, "--host", "unix:///var/run/docker.sock",
		"--log-opt", "max-size=10m",
	}
	if mtu := defaultMTU(); mtu > 0 {
		args = append(args, "--mtu", strconv.Itoa(mtu))
	}
	if lacking {
		program := filepath.Join(m.dir, "runc")
		if err := m.compile(ctx, m.source, program, "./test/compose/machine/runc"); err != nil {
			return false, err
		}
		args = append(args, "--add-runtime", runtimeName+"="+program, "--default-runtime", runtimeName)
	}
	// A daemon that enables forwarding forbids it for everything else, including networks of other
	// containers on this machine. If forwarding is already enabled, the daemon leaves it alone.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return false, fmt.Errorf("enabling IP forwarding: %w", err)
	}
	if err := m.launch(args); err != nil {
		return false, err
	}
	return true, m.answering(ctx)
}

func (m *machine) pidFile() string { return filepath.Join(m.dir, "dockerd.pid") }
func (m *machine) logFile() string { return filepath.Join(m.dir, "dockerd.log") }

// launch starts dockerd in a separate session, which outlives this process.
func (m *machine) launch(args []string) error {
	log, err := os.OpenFile(m.logFile(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	if _, running := m.process(); !running {
		_ = os.Remove(m.pidFile()) // from a daemon that was killed
	}
	cmd := exec.Command("dockerd", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	fmt.Fprintf(os.Stderr, "machine: dockerd %s\n", strings.Join(args, " "))
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting dockerd: %w", err)
	}
	return cmd.Process.Release()
}

// answering waits until the daemon answers.
func (m *machine) answering(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		_, err := output(ctx, "docker", "info")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			log, readErr := os.ReadFile(m.logFile())
			return fmt.Errorf("dockerd does not answer: %w; its log: %s", errors.Join(err, readErr), log[max(0, len(log)-2000):])
		case <-time.After(pollInterval):
		}
	}
}

// end ends the daemon that this program started, if it runs.
func (m *machine) end(ctx context.Context) error {
	process, running := m.process()
	if !running {
		return nil
	}
	if err := process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping dockerd: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	for {
		if _, running := m.process(); !running {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("dockerd (process %d) does not exit: %w", process.Pid, ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

// process returns the daemon that this program started, and reports whether it runs.
func (m *machine) process() (*os.Process, bool) {
	data, err := os.ReadFile(m.pidFile())
	if err != nil {
		return nil, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return nil, false
	}
	// Another process may have the number by now.
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil || !strings.Contains(string(status), "(dockerd)") || strings.Contains(string(status), ") Z ") {
		return nil, false
	}
	process, err := os.FindProcess(pid)
	return process, err == nil
}

// lacksCapabilities reports whether this process lacks any capability that the kernel knows.
func lacksCapabilities() (bool, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false, err
	}
	last, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		return false, err
	}
	return lacking(string(status), string(last))
}

func lacking(status, last string) (bool, error) {
	highest, err := strconv.Atoi(strings.TrimSpace(last))
	if err != nil {
		return false, fmt.Errorf("reading the number of the last capability: %w", err)
	}
	for line := range strings.Lines(status) {
		if text, ok := strings.CutPrefix(line, "CapBnd:"); ok {
			bounding, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
			all := uint64(1)<<(highest+1) - 1
			return bounding&all != all, err
		}
	}
	return false, errors.New("the kernel does not report the capabilities of this process")
}

// defaultMTU returns the MTU of the interface of the default route, or 0 if there is none. A bridge
// with a larger MTU loses packets on machines whose own network is a tunnel.
func defaultMTU() int {
	routes, err := os.Open("/proc/net/route")
	if err != nil {
		return 0
	}
	defer func() { _ = routes.Close() }()
	for lines := bufio.NewScanner(routes); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 8 || fields[1] != "00000000" || fields[7] != "00000000" {
			continue
		}
		if device, err := net.InterfaceByName(fields[0]); err == nil {
			return device.MTU
		}
	}
	return 0
}

// compile builds a static program of the module in folder.
func (m *machine) compile(ctx context.Context, folder, program, path string) error {
	return call(ctx, folder, "env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, path)
}
