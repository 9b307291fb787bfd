// Package plane runs the programs of the chaos test, each as a separate process that can be killed,
// frozen and restarted: etcd, NATS servers, apiservers and informers.
package plane

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// endTimeout bounds the time in which a process must end after SIGTERM.
const endTimeout = 10 * time.Second

// Process is a program that may be running.
type Process struct {
	// Name is also the name of its log.
	Name    string
	command []string
	dir     string
	output  func(io.Reader) // reads the standard output, if set

	mu      sync.Mutex
	running *exec.Cmd
	input   io.WriteCloser
	ended   chan struct{}
}

// NewProcess creates a program that can be started. Its log is in dir. If output is not nil, it
// reads the program's standard output until that ends.
func NewProcess(name, dir string, command []string, output func(io.Reader)) *Process {
	return &Process{Name: name, dir: dir, command: command, output: output}
}

// Start starts the program. It dies with this process in any case.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		return fmt.Errorf("starting %s: it is already running", p.Name)
	}
	log, err := os.OpenFile(filepath.Join(p.dir, p.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", p.Name, err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(p.command[0], p.command[1:]...)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	input, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("starting %s: %w", p.Name, err)
	}
	var output io.Reader
	if p.output == nil {
		cmd.Stdout = log
	} else if output, err = cmd.StdoutPipe(); err != nil {
		return fmt.Errorf("starting %s: %w", p.Name, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p.Name, err)
	}
	p.running, p.input, p.ended = cmd, input, make(chan struct{})
	go func(ended chan struct{}) {
		defer close(ended)
		if output != nil {
			p.output(output)
		}
		_ = cmd.Wait()
	}(p.ended)
	return nil
}

// Running reports whether the program was started and not ended by the harness.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running != nil
}

// errDied reports that a program ended although the harness did not end it.
var errDied = errors.New("it ended by itself")

// PID returns the program's process ID, or 0 while it does not run.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		return 0
	}
	return p.running.Process.Pid
}

// Died returns an error if the program ended by itself.
func (p *Process) Died() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		return nil
	}
	select {
	case <-p.ended:
		return fmt.Errorf("%s: %w (%v); see its log", p.Name, errDied, p.running.ProcessState)
	default:
		return nil
	}
}

// Signal sends a signal to the program.
func (p *Process) Signal(signal syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		return fmt.Errorf("signalling %s: it is not running", p.Name)
	}
	if err := p.running.Process.Signal(signal); err != nil {
		return fmt.Errorf("signalling %s: %w", p.Name, err)
	}
	return nil
}

// Kill ends the program abruptly, like a power failure, and waits until it is gone.
func (p *Process) Kill() { p.end(syscall.SIGKILL) }

// Stop asks the program to end, and kills it if it does not.
func (p *Process) Stop() { p.end(syscall.SIGTERM) }

func (p *Process) end(signal syscall.Signal) {
	p.mu.Lock()
	cmd, input, ended := p.running, p.input, p.ended
	p.running = nil
	p.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(signal)
	_ = input.Close()
	force := time.AfterFunc(endTimeout, func() { _ = cmd.Process.Kill() })
	defer force.Stop()
	<-ended
}

// Send writes a line to the program's standard input.
func (p *Process) Send(line string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		return errors.New("it is not running")
	}
	_, err := io.WriteString(p.input, line+"\n")
	return err
}
