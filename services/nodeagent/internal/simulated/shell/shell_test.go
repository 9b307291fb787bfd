package shell

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestCommands checks the output and the exit code of every command.
func TestCommands(t *testing.T) {
	for _, test := range []struct {
		name            string
		words           []string
		in, out, errOut string
		code            int32
	}{
		{name: "true", words: []string{"/bin/true"}},
		{name: "false", words: []string{"false"}, code: 1},
		{name: "exit", words: []string{"exit", "9"}, code: 9},
		{name: "exit beyond what fits", words: []string{"exit", "256"}, errOut: "sh: exit: Illegal number: 256\n", code: 2},
		{name: "echo", words: []string{"echo", "a  b", "c"}, out: "a  b c\n"},
		{name: "echo of nothing", words: []string{"echo"}, out: "\n"},
		{name: "env", words: []string{"env"}, out: "A=1\nB=2\n"},
		{name: "hostname", words: []string{"hostname"}, out: "host\n"},
		{name: "cat", words: []string{"cat"}, in: "x\ny", out: "x\ny"},
		{name: "cat of a file", words: []string{"cat", "/etc/passwd"}, errOut: "cat: can't open '/etc/passwd': No such file or directory\n", code: 1},
		{name: "sleep", words: []string{"sleep", "0"}},
		{name: "sleep for no time", words: []string{"sleep", "-1"}, errOut: "sleep: invalid number '-1'\n", code: 1},
		{name: "sleep for no number", words: []string{"sleep", "NaN"}, errOut: "sleep: invalid number 'NaN'\n", code: 1},
		{name: "script", words: []string{"sh", "-c", "echo a; false\n\nenv >&2"}, out: "a\n", errOut: "A=1\nB=2\n"},
		{name: "script's last code", words: []string{"sh", "-c", "true; false"}, code: 1},
		{name: "exit in a script", words: []string{"sh", "-c", "false; exit; echo b"}, code: 1},
		{name: "exit ends a script of lines", words: []string{"sh", "-c", "exit 3\necho b"}, code: 3},
		{name: "unknown command in a script", words: []string{"sh", "-c", "vim x"}, errOut: "sh: vim: not found\n", code: 127},
		{name: "script in a file", words: []string{"sh", "run.sh"}, errOut: "sh: can't open 'run.sh': No such file or directory\n", code: 2},
		{name: "shell", words: []string{"sh"}, in: "echo a\nexit 5\necho b\n", out: "a\n", code: 5},
		{name: "shell without an end of the line", words: []string{"sh"}, in: "echo a", out: "a\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			p := &Process{Hostname: "host", Env: []string{"A=1", "B=2"}, In: strings.NewReader(test.in), Out: &out, Err: &errOut}
			code, err := p.Run(t.Context(), test.words)
			if err != nil || code != test.code || out.String() != test.out || errOut.String() != test.errOut {
				t.Errorf("got %d %q %q, %v", code, out.String(), errOut.String(), err)
			}
		})
	}
	if _, err := (&Process{}).Run(t.Context(), []string{"vim"}); err == nil || !strings.Contains(err.Error(), `exec: "vim": executable file not found in $PATH`) {
		t.Errorf("a command that does not exist: %v", err)
	}
}

// TestSleep checks that sleep waits, and ends with its context.
func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if code, err := (&Process{}).Run(t.Context(), []string{"sleep", "2.5"}); code != 0 || err != nil || time.Since(began) != 2500*time.Millisecond {
			t.Errorf("got %d, %v after %v", code, err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began = time.Now()
		if _, err := (&Process{}).Run(ctx, []string{"sleep", "1e30"}); err != nil || time.Since(began) != time.Minute {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}
