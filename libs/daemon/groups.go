package daemon

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// groupNote is the flag annotation that names a flag's group.
const groupNote = "garboard.dev/group"

// logsGroup and globalGroup are the groups of the flags that every process has.
const (
	logsGroup   = "Logs"
	globalGroup = "Global"
)

// helpWidth is the width of the help text in columns.
const helpWidth = 120

// Group declares flags that --help shows together, under a heading such as "Etcd flags:". --help
// shows groups in the order of their first declaration.
func Group(flags *pflag.FlagSet, name string, declare func(group *pflag.FlagSet)) {
	group := pflag.NewFlagSet(name, pflag.ContinueOnError)
	declare(group)
	group.VisitAll(func(flag *pflag.Flag) {
		// Flags of a nested group stay in that group.
		if len(flag.Annotations[groupNote]) == 0 {
			if flag.Annotations == nil {
				flag.Annotations = map[string][]string{}
			}
			flag.Annotations[groupNote] = []string{name}
		}
	})
	// Keep the order of declaration.
	flags.SortFlags = false
	flags.AddFlagSet(group)
}

// GroupOf returns the group in which --help shows a flag; empty if it has none.
func GroupOf(flag *pflag.Flag) string {
	if names := flag.Annotations[groupNote]; len(names) > 0 {
		return names[0]
	}
	if flag.Name == "help" || flag.Name == "version" {
		return globalGroup
	}
	return ""
}

// EnvName returns the environment variable of a flag.
func EnvName(flag *pflag.Flag) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
}

// hasEnv reports whether a flag can be set by an environment variable.
func hasEnv(flag *pflag.Flag) bool { return flag.Name != "help" && flag.Name != "version" }

// groupedHelp makes --help show the flags by group, each with its environment variable.
func groupedHelp(cmd *cobra.Command) {
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		writeHelp(cmd.OutOrStdout(), cmd)
	})
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		writeHelp(cmd.OutOrStderr(), cmd)
		return nil
	})
}

func writeHelp(w io.Writer, cmd *cobra.Command) {
	var text strings.Builder
	what := cmd.Long
	if what == "" {
		what = cmd.Short
	}
	fmt.Fprintf(&text, "%s\n\nUsage:\n  %s [flags]\n", what, cmd.CommandPath())
	var commands []*cobra.Command
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			commands = append(commands, sub)
		}
	}
	if len(commands) > 0 {
		fmt.Fprintf(&text, "  %s [command]\n\nCommands:\n", cmd.CommandPath())
		for _, sub := range commands {
			fmt.Fprintf(&text, "  %-14s%s\n", sub.Name(), sub.Short)
		}
	}
	fmt.Fprintf(&text, "\nA flag that is not set on the command line takes its value from the environment variable beside it, if that is set.\n")
	names, sets := groups(cmd)
	for _, name := range names {
		fmt.Fprintf(&text, "\n%s flags:\n\n%s", name, sets[name].FlagUsagesWrapped(helpWidth))
	}
	_, _ = io.WriteString(w, text.String())
}

// groups returns a command's flags by the heading under which --help shows them. Flags without a
// group appear with those of all programs, which come last.
func groups(cmd *cobra.Command) (names []string, sets map[string]*pflag.FlagSet) {
	sets = map[string]*pflag.FlagSet{}
	flags := cmd.LocalFlags()
	flags.SortFlags = false
	flags.VisitAll(func(flag *pflag.Flag) {
		name := GroupOf(flag)
		if name == "" {
			name = globalGroup
		}
		if sets[name] == nil {
			sets[name] = pflag.NewFlagSet(name, pflag.ContinueOnError)
			sets[name].SortFlags = false
			names = append(names, name)
		}
		shown := *flag
		if hasEnv(flag) {
			shown.Usage += " [$" + EnvName(flag) + "]"
		}
		sets[name].AddFlag(&shown)
	})
	last := func(name string) int { return slices.Index([]string{logsGroup, globalGroup}, name) }
	slices.SortStableFunc(names, func(a, b string) int { return last(a) - last(b) })
	return names, sets
}
