package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// grace is how long a spec may clean up after it was interrupted.
const grace = time.Minute

// rootName is the name of the suite, with which the full name of each spec begins.
const rootName = "Kubernetes e2e suite "

// runner runs specs against one plane.
type runner struct {
	suite      suite
	kubeconfig string
	limit      time.Duration
	logs       string // folder for the output of specs that run or did not pass
	results    *results
	report     *report
}

// all runs specs side by side, and then each serial one alone.
func (r *runner) all(ctx context.Context, specs []spec, parallel int) error {
	if err := os.MkdirAll(r.logs, 0o755); err != nil {
		return fmt.Errorf("creating the folder for the output of specs: %w", err)
	}
	shared, serial := order(specs)
	stop := r.report.heartbeat(ctx)
	defer stop()
	if err := r.batch(ctx, shared, parallel); err != nil {
		return err
	}
	return r.batch(ctx, serial, 1)
}

// order returns the specs that may run side by side, and those that run alone.
func order(specs []spec) (shared, serial []spec) {
	for _, s := range specs {
		if s.serial() {
			serial = append(serial, s)
		} else {
			shared = append(shared, s)
		}
	}
	return shared, serial
}

// batch runs specs, at most parallel at a time. It stops at the first result that cannot be saved.
func (r *runner) batch(ctx context.Context, specs []spec, parallel int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan spec)
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for s := range queue {
				if err := r.one(ctx, s); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, s := range specs {
		select {
		case queue <- s:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(queue)
	workers.Wait()
	return context.Cause(ctx)
}

// one runs one spec and saves its result. A spec that the end of ctx interrupts has none.
func (r *runner) one(ctx context.Context, s spec) error {
	r.report.began(s)
	log := filepath.Join(r.logs, fileName(s.name))
	began := time.Now()
	code, err := r.execute(ctx, s, log)
	if err != nil {
		return err
	}
	took := time.Since(began)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	output, err := os.ReadFile(log)
	if err != nil {
		return fmt.Errorf("reading the output of a spec: %w", err)
	}
	found := read(output, code)
	found.Spec, found.Seconds, found.Log = s.name, took.Round(100*time.Millisecond).Seconds(), log
	if took >= r.limit {
		found.State = stateTimeout
	}
	if found.State == statePassed {
		found.Log = ""
		if err := os.Remove(log); err != nil {
			return fmt.Errorf("removing the output of a spec that passed: %w", err)
		}
	}
	if err := r.results.add(found); err != nil {
		return err
	}
	r.report.ended(s, found)
	return nil
}

// execute runs the suite's program for one spec, with its output in a file, and returns the exit code.
func (r *runner) execute(ctx context.Context, s spec, log string) (code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	// With a file, unlike with a buffer, nobody waits for children that keep the output open.
	output, err := os.Create(log)
	if err != nil {
		return 0, fmt.Errorf("creating a file for the output of a spec: %w", err)
	}
	defer func() { err = errors.Join(err, output.Close()) }()
	cmd := exec.CommandContext(ctx, r.suite.tests, r.arguments(s)...)
	cmd.Stdout, cmd.Stderr = output, output
	// The suite starts kubectl. All of that must end with the spec.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = grace
	if err := cmd.Start(); err != nil {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return 0, fmt.Errorf("starting the suite: %w", err)
	}
	err = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	var exit *exec.ExitError
	if err != nil && ctx.Err() == nil && !errors.As(err, &exit) {
		return 0, fmt.Errorf("running the suite: %w", err)
	}
	return cmd.ProcessState.ExitCode(), nil
}

func (r *runner) arguments(s spec) []string {
	return []string{
		"--kubeconfig=" + r.kubeconfig, "--kubectl-path=" + r.suite.kubectl, "--provider=skeleton", "--allowed-not-ready-nodes=-1",
		"--ginkgo.v", "--ginkgo.no-color", "--ginkgo.focus=^" + regexp.QuoteMeta(rootName+s.name) + "$",
	}
}

// fileName makes a file's name from that of a spec. Two specs never have the same.
func fileName(name string) string {
	words := strings.FieldsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
	joined := strings.Join(words, "-")
	if most := 200; len(joined) > most {
		sum := sha256.Sum256([]byte(name))
		joined = joined[:most] + "-" + hex.EncodeToString(sum[:4])
	}
	return joined + ".log"
}
