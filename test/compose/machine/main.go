// Command machine prepares a Debian machine to build and run the plane's containers as a user's
// Docker would. It installs Docker with the compose and buildx plugins, and starts its daemon where
// no service manager does. For machines that cannot pull images, it builds stand-ins for the images
// that the Dockerfile and the compose file name. It keeps what already exists, so a second call is
// quick. It needs root.
//
//	machine up                 install, start, and build the images
//	machine run COMMAND...     the same, then run the command, and stop the daemon if machine started it
//	machine down               stop the daemon that up started
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		var ended *exec.ExitError
		fmt.Fprintf(os.Stderr, "machine: %v\n", err)
		if errors.As(err, &ended) && ended.ExitCode() > 0 {
			os.Exit(ended.ExitCode())
		}
		os.Exit(1)
	}
}

// machine is the machine's configuration.
type machine struct {
	// source is the root of the module's sources.
	source string
	// dir is the folder of this program's own files: its runtime, the daemon's log and process
	// number.
	dir string
	// data is the daemon's data folder, which must be on a disk. It is a flag because images are
	// large.
	data string
	// only lists the images to build stand-ins for; all if empty.
	only []string
}

func command(ctx context.Context, args []string) error {
	var m machine
	var only string
	set := flag.NewFlagSet("machine", flag.ContinueOnError)
	set.StringVar(&m.source, "source", ".", "root of the sources")
	set.StringVar(&m.dir, "dir", "/var/lib/garboard-machine", "folder for this program's own files")
	set.StringVar(&m.data, "data-root", "/var/lib/docker", "folder for Docker's images and containers, on a disk")
	set.StringVar(&only, "images", "", "images to build stand-ins for, separated by commas; all if empty")
	if err := set.Parse(args); err != nil {
		return err
	}
	m.only = strings.FieldsFunc(only, func(r rune) bool { return r == ',' })
	var err error
	if m.source, err = filepath.Abs(m.source); err != nil {
		return err
	}
	switch {
	case set.Arg(0) == "up" && set.NArg() == 1:
		_, err := m.up(ctx)
		return err
	case set.Arg(0) == "down" && set.NArg() == 1:
		return m.end(ctx)
	case set.Arg(0) == "run" && set.NArg() > 1:
		return m.run(ctx, set.Args()[1:])
	}
	return errors.New("the command must be up, down, or run COMMAND")
}

// up prepares everything, and reports whether it started the daemon.
func (m *machine) up(ctx context.Context) (started bool, err error) {
	if os.Geteuid() != 0 {
		return false, errors.New("only root can set up Docker")
	}
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return false, err
	}
	if err := m.install(ctx); err != nil {
		return false, err
	}
	if started, err = m.start(ctx); err != nil {
		return started, err
	}
	return started, m.standIns(ctx)
}

// run runs a command with Docker ready.
func (m *machine) run(ctx context.Context, args []string) (err error) {
	started, err := m.up(ctx)
	if started {
		defer func() { err = errors.Join(err, m.end(context.WithoutCancel(ctx))) }()
	}
	if err != nil {
		return err
	}
	return call(ctx, m.source, args[0], args[1:]...)
}

// call runs a program with this process's output. It prints the command to standard error, since
// some commands take minutes.
func call(ctx context.Context, dir, program string, args ...string) error {
	fmt.Fprintf(os.Stderr, "machine: %s %s\n", program, strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(program), err)
	}
	return nil
}

// output runs a program and returns its output.
func output(ctx context.Context, program string, args ...string) (string, error) {
	var out, faults strings.Builder
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &out, &faults
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(faults.String()))
	}
	return strings.TrimSpace(out.String()), nil
}
