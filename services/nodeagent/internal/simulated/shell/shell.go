// Package shell runs the few commands that simulated containers know:
//
//	true, false, exit N
//	echo WORDS, env, hostname
//	cat          copies its input to its output
//	sleep N      waits N seconds
//	sh -c LINES  runs such commands, separated by ; or a new line; without quotes. A command may end in
//	             ">&2" to write to the error output. Without -c, it runs the lines of its input.
package shell

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/garboard/garboard/libs/backoff"
)

// Exit codes of a shell.
const (
	notFound int32 = 127
	misused  int32 = 2
)

// Process is a process of a container, for one command.
type Process struct {
	Hostname string
	// Env are the variables, as NAME=VALUE.
	Env      []string
	In       io.Reader
	Out, Err io.Writer
}

// Run runs a command and returns its exit code; the error is that of a command that does not exist.
// Commands that wait end with ctx.
func (p *Process) Run(ctx context.Context, words []string) (int32, error) {
	switch args := words[1:]; path.Base(words[0]) {
	case "true":
		return 0, nil
	case "false":
		return 1, nil
	case "exit":
		return p.exit(args, 0), nil
	case "echo":
		p.print("%s\n", strings.Join(args, " "))
		return 0, nil
	case "env":
		p.print("%s\n", strings.Join(p.Env, "\n"))
		return 0, nil
	case "hostname":
		p.print("%s\n", p.Hostname)
		return 0, nil
	case "cat":
		return p.cat(args), nil
	case "sleep":
		return p.sleep(ctx, args), nil
	case "sh":
		return p.shell(ctx, args), nil
	}
	return 0, fmt.Errorf("OCI runtime exec failed: exec failed: unable to start container process: "+
		"exec: %q: executable file not found in $PATH: unknown", words[0])
}

// print writes to the output. A reader that is gone ends the session by other means.
func (p *Process) print(format string, args ...any) { _, _ = fmt.Fprintf(p.Out, format, args...) }

// fail writes to the error output.
func (p *Process) fail(format string, args ...any) { _, _ = fmt.Fprintf(p.Err, format, args...) }

func (p *Process) cat(files []string) int32 {
	if len(files) > 0 {
		p.fail("cat: can't open '%s': No such file or directory\n", files[0])
		return 1
	}
	if _, err := io.Copy(p.Out, p.In); err != nil {
		return 1
	}
	return 0
}

func (p *Process) sleep(ctx context.Context, args []string) int32 {
	text := strings.Join(args, " ")
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= 0) {
		p.fail("sleep: invalid number '%s'\n", text)
		return 1
	}
	backoff.Sleep(ctx, time.Duration(min(seconds*float64(time.Second), math.MaxInt64/2)))
	return 0
}

// shell runs the script of -c, or the lines of its input.
func (p *Process) shell(ctx context.Context, args []string) int32 {
	code, over := int32(0), false
	if len(args) > 1 && args[0] == "-c" {
		for line := range strings.Lines(args[1]) {
			if code, over = p.line(ctx, line, code); over {
				break
			}
		}
		return code
	}
	if len(args) > 0 {
		p.fail("sh: can't open '%s': No such file or directory\n", args[0])
		return misused
	}
	lines := bufio.NewReader(p.In)
	for !over && ctx.Err() == nil {
		line, err := lines.ReadString('\n')
		if code, over = p.line(ctx, line, code); err != nil {
			break
		}
	}
	return code
}

// line runs a line of a script; last is the exit code of the command before. over reports that it ends
// the shell.
func (p *Process) line(ctx context.Context, line string, last int32) (code int32, over bool) {
	for command := range strings.SplitSeq(line, ";") {
		words, process := strings.Fields(command), *p
		if end := len(words) - 1; end > 0 && words[end] == ">&2" {
			words, process.Out = words[:end], p.Err
		}
		if len(words) == 0 {
			continue
		}
		if words[0] == "exit" {
			return p.exit(words[1:], last), true
		}
		var err error
		if last, err = process.Run(ctx, words); err != nil {
			p.fail("sh: %s: not found\n", words[0])
			last = notFound
		}
	}
	return last, false
}

// exit returns the exit code in the arguments of exit; last if there is none.
func (p *Process) exit(args []string, last int32) int32 {
	if len(args) == 0 {
		return last
	}
	code, err := strconv.ParseUint(args[0], 10, 8)
	if err != nil {
		p.fail("sh: exit: Illegal number: %s\n", args[0])
		return misused
	}
	return int32(code)
}
