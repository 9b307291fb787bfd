// Package daemontest checks commands built with libs/daemon.
package daemontest

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/garboard/garboard/libs/daemon"
)

// version matches the output of --version.
var version = regexp.MustCompile(`^[a-z]+ version \S+ \(go1\.\S+, Kubernetes (v1\.\d+\.\d+|unknown)\)\n$`)

// CheckHelp checks that each flag of a command has a group and a description, that --help shows it
// once with its environment variable, and that --version reports what is compiled in.
func CheckHelp(t *testing.T, cmd *cobra.Command) {
	t.Helper()
	if text := output(t, cmd, "--version"); !version.MatchString(text) {
		t.Errorf("--version prints %q", text)
	}
	help := output(t, cmd, "--help")
	flags := 0
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden { // the old name of a flag
			return
		}
		flags++
		if daemon.GroupOf(flag) == "" {
			t.Errorf("--%s is in no group", flag.Name)
		} else if !strings.Contains(help, "\n"+daemon.GroupOf(flag)+" flags:\n") {
			t.Errorf("--help does not show the group %q", daemon.GroupOf(flag))
		}
		if flag.Usage == "" {
			t.Errorf("--%s has no description", flag.Name)
		}
		if shown := regexp.MustCompile(`(?m)^ +(-\w, )?--`+flag.Name+`\b[^-]`).FindAllString(help, -1); len(shown) != 1 {
			t.Errorf("--help shows --%s %d times", flag.Name, len(shown))
		}
		if flag.Name == "help" || flag.Name == "version" {
			return
		}
		if n := strings.Count(help, "[$"+daemon.EnvName(flag)+"]"); n != 1 {
			t.Errorf("--help names %s %d times", daemon.EnvName(flag), n)
		}
	})
	if flags < 4 {
		t.Errorf("the command has %d flags", flags)
	}
}

func output(t *testing.T, cmd *cobra.Command, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	if code := daemon.Execute(t.Context(), cmd, args, &out); code != 0 {
		t.Fatalf("%v: exit code %d: %s", args, code, out.String())
	}
	return out.String()
}
