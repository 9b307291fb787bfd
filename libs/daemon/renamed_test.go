package daemon_test

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/garboard/garboard/libs/daemon"
)

// TestRenamed checks that a flag's old name fails with the new one, however it is set, and that the
// help does not show it.
func TestRenamed(t *testing.T) {
	declare := func() *pflag.FlagSet {
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		flags.SetOutput(io.Discard)
		flags.String("new-name", "", "what it sets")
		daemon.Renamed(flags, "old-name", "new-name")
		return flags
	}
	const want = "renamed to --new-name"
	if err := declare().Parse([]string{"--old-name", "x"}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("--old-name returned %v, want an error with %q", err, want)
	}
	lookup := func(name string) (string, bool) { return "x", name == "GARBOARD_OLD_NAME" }
	if err := daemon.FromEnvironment(declare(), lookup); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("GARBOARD_OLD_NAME returned %v, want an error with %q", err, want)
	}
	if err := declare().Parse([]string{"--new-name", "x"}); err != nil {
		t.Errorf("--new-name: %v", err)
	}
	if usages := declare().FlagUsages(); strings.Contains(usages, "old-name") {
		t.Errorf("the help shows the old name:\n%s", usages)
	}
}
