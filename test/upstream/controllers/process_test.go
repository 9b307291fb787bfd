package upstream

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// patience bounds the start of a process, and each step of a load, on a busy machine.
	patience = 30 * time.Minute
	// endPatience bounds the time in which a process must end after a signal.
	endPatience = 20 * time.Second
	pause       = 100 * time.Millisecond
)

// process is a program that may be running.
type process struct {
	command []string
	log     string
	ready   func(ctx context.Context) error

	mu      sync.Mutex
	running *exec.Cmd
	input   io.WriteCloser
	ended   chan struct{}
}

// start starts the program and waits until it is ready. It dies with this process in any case.
func (p *process) start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(p.command[0], p.command[1:]...) // A signal ends it, and end waits for it.
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if p.input, err = cmd.StdinPipe(); err != nil {
		return fmt.Errorf("starting %s: %w", p.command[0], err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p.command[0], err)
	}
	ended := make(chan struct{})
	p.running, p.ended = cmd, ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := p.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(pause):
			continue
		case <-ended:
			err = fmt.Errorf("it ended with %v", cmd.ProcessState)
		case <-ctx.Done():
		}
		return fmt.Errorf("%s does not become ready: %w; its log ends with\n%s", filepath.Base(p.command[0]), err, tail(p.log))
	}
}

// signal sends a signal to the program, which goes on running.
func (p *process) signal(signal syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		_ = p.running.Process.Signal(signal)
	}
}

// cpu returns the time of processors that the program has used, 0 if it does not run.
func (p *process) cpu() time.Duration {
	const tick = 10 * time.Millisecond // of /proc, on every Linux
	data := p.proc("stat")
	fields := strings.Fields(data[strings.LastIndexByte(data, ')')+1:])
	var used time.Duration
	for _, i := range []int{11, 12} { // utime and stime
		if i < len(fields) {
			n, _ := strconv.ParseInt(fields[i], 10, 64)
			used += time.Duration(n) * tick
		}
	}
	return used
}

// memory returns a line of the program's status in /proc, for example VmRSS, in bytes.
func (p *process) memory(line string) int64 {
	_, rest, _ := strings.Cut(p.proc("status"), "\n"+line+":")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kilobytes, _ := strconv.ParseInt(fields[0], 10, 64)
	return kilobytes << 10
}

func (p *process) proc(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		return ""
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.running.Process.Pid, name))
	if err != nil {
		return ""
	}
	return string(data)
}

// end ends the program by a signal and waits for it.
func (p *process) end(signal syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		return
	}
	_ = p.running.Process.Signal(signal)
	_ = p.input.Close()
	force := time.AfterFunc(endPatience, func() { _ = p.running.Process.Kill() })
	defer force.Stop()
	<-p.ended
	p.running = nil
}

// died reports whether the program ended by itself.
func (p *process) died() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		return false
	}
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// tail returns the end of a log.
func tail(path string) string {
	const most = 4_000
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-most):])
}

// freeAddress returns a loopback address that was free a moment ago, below the system's ephemeral ports.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 1000 {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000)))
		if err != nil {
			continue // The port is in use.
		}
		defer func() { _ = listener.Close() }()
		return listener.Addr().String()
	}
	t.Fatal("no free port")
	return ""
}
