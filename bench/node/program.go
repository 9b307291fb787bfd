package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/garboard/garboard/bench/measure"
)

// pollPause is the pause between two looks at something that is to happen.
const pollPause = 5 * time.Millisecond

// Program is a program that runs on the node.
type Program struct {
	measure.Process
	// Began is when it was started.
	Began time.Time

	command *exec.Cmd
	log     string
	ended   chan error // receives its end
}

// Run starts a program, whose output goes to a log in dir.
func Run(dir, name string, command ...string) (*Program, error) {
	p := &Program{log: filepath.Join(dir, "log", name), ended: make(chan error, 1)}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", name, err)
	}
	defer func() { _ = log.Close() }()
	p.command = exec.Command(command[0], command[1:]...)
	p.command.Stdout, p.command.Stderr = log, log
	p.Began = time.Now()
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p.Process = measure.Process{Name: name, PID: p.command.Process.Pid}
	go func() { p.ended <- p.command.Wait() }()
	return p, nil
}

// Wait returns when done reports true. It returns an error with the end of the program's log if the program ends
// before, or after timeout.
func (p *Program) Wait(ctx context.Context, timeout time.Duration, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
			continue
		case err := <-p.ended:
			p.ended <- err
		case <-ctx.Done():
		}
		text, _ := os.ReadFile(p.log)
		return fmt.Errorf("%s does not become ready; its log ends with\n%s", p.Name, text[max(0, len(text)-2000):])
	}
	return nil
}

// printed returns a function that reports whether the program has printed a text.
func (p *Program) printed(text string) func() bool {
	return func() bool {
		printed, err := os.ReadFile(p.log)
		return err == nil && bytes.Contains(printed, []byte(text))
	}
}

// Stop stops the program, by force if it does not end.
func (p *Program) Stop() error {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	force := time.AfterFunc(endTimeout, func() { _ = p.command.Process.Kill() })
	defer force.Stop()
	err := <-p.ended
	p.ended <- err
	// A program may end by the signal, or with a status of its own.
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil
	}
	return err
}
