package daemon

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// groupNote is the annotation of a flag that names its group.
const groupNote = "garboard.dev/group"

// logsGroup and globalGroup are the groups of the flags that every process has.
const (
	logsGroup   = "Logs"
	globalGroup = "Global"
)

// helpWidth is how many columns the help takes.
const helpWidth = 120

// Group declares flags that --help shows together, under a heading such as "Etcd flags:".
// Groups are shown in the order in which they are first declared.
func Group(flags *pflag.FlagSet, name string, declare func(group *pflag.FlagSet)) {
	group := pflag.NewFlagSet(name, pflag.ContinueOnError)
	declare(group)
	group.VisitAll(func(flag *pflag.Flag) {
		// A group within a group is that of its flags.
		if len(flag.Annotations[groupNote]) == 0 {
			if flag.Annotations == nil {
				flag.Annotations = map[string][]string{}
			}
			flag.Annotations[groupNote] = []string{name}
		}
	})
	// What is declared first is shown first.
	flags.SortFlags = false
	flags.AddFlagSet(group)
}

// GroupOf is the group in which --help shows a flag; empty if it has none.
func GroupOf(flag *pflag.Flag) string {
	if names := flag.Annotations[groupNote]; len(names) > 0 {
		return names[0]
	}
	if flag.Name == "help" || flag.Name == "version" {
		return globalGroup
	}
	return ""
}

// EnvName is the environment variable of a flag.
func EnvName(flag *pflag.Flag) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
}

// hasEnv says whether a flag can be set by its environment variable.
func hasEnv(flag *pflag.Flag) bool { return flag.Name != "help" && flag.Name != "version" }

// groupedHelp has --help show the flags by their groups, each with its environment variable.
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
	fmt.Fprintf(&text, "\nA flag that is not given is taken from the environment variable beside it, if that is set.\n")
	names, sets := groups(cmd)
	for _, name := range names {
		fmt.Fprintf(&text, "\n%s flags:\n\n%s", name, sets[name].FlagUsagesWrapped(helpWidth))
	}
	_, _ = io.WriteString(w, text.String())
}

// groups are a command's flags by the headings under which they are shown. Flags of no group are
// shown with those of all programs, and those come last.
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
