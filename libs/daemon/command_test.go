package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/garboard/garboard/libs/daemon"
)

func TestExecute(t *testing.T) {
	cases := []struct {
		name   string
		args   []string
		env    map[string]string
		fail   error
		code   int
		stderr string
		listen string
	}{
		{name: "defaults", listen: "127.0.0.1:6443"},
		{name: "a flag", args: []string{"--listen", ":1"}, listen: ":1"},
		{name: "a variable", env: map[string]string{"GARBOARD_LISTEN": ":2"}, listen: ":2"},
		{name: "a flag and a variable", args: []string{"--listen", ":1"}, env: map[string]string{"GARBOARD_LISTEN": ":2"}, listen: ":1"},
		{name: "an unknown flag", args: []string{"--nope"}, code: 1, stderr: "unknown flag: --nope"},
		{name: "an invalid variable", env: map[string]string{"GARBOARD_NODES": "many"}, code: 1, stderr: "GARBOARD_NODES"},
		{name: "an invalid level", args: []string{"--log-level", "loud"}, code: 1, stderr: "debug, info, warn or error"},
		{name: "an argument", args: []string{"surplus"}, code: 1, stderr: "surplus"},
		{name: "a failure", fail: errors.New("port 6443 is taken"), code: 1, stderr: "error: port 6443 is taken\n", listen: "127.0.0.1:6443"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			var listen, ran string
			var nodes int
			cmd := daemon.Command{
				Use: "test",
				Flags: func(flags *pflag.FlagSet) {
					flags.StringVar(&listen, "listen", "127.0.0.1:6443", "")
					flags.IntVar(&nodes, "nodes", 1, "")
				},
				Run: func(context.Context, *slog.Logger) error {
					ran = listen
					return c.fail
				},
			}.Cobra()
			var stderr bytes.Buffer
			if code := daemon.Execute(t.Context(), cmd, c.args, &stderr); code != c.code {
				t.Errorf("exit code %d, want %d; stderr: %s", code, c.code, stderr.String())
			}
			if !strings.Contains(stderr.String(), c.stderr) {
				t.Errorf("stderr %q, want %q in it", stderr.String(), c.stderr)
			}
			if ran != c.listen {
				t.Errorf("ran with %q, want %q", ran, c.listen)
			}
		})
	}
}
