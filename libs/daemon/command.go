package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// EnvPrefix is the prefix of every flag's environment variable: --etcd-servers is also
// GARBOARD_ETCD_SERVERS. A flag on the command line takes precedence.
const EnvPrefix = "GARBOARD_"

// Command describes a process.
type Command struct {
	// Use is the program's name; Short describes it in one line.
	Use, Short string
	// Version is what --version prints.
	Version string
	// LogLevel and LogFormat are the defaults of those flags; empty means info and text.
	LogLevel, LogFormat string
	// Flags declares the process's own flags, each in a Group. It is called once for each command
	// that has them.
	Flags func(flags *pflag.FlagSet)
	// Probe returns where a process with these flags reports its readiness, for the subcommand
	// healthcheck; nil means that there is no such subcommand.
	Probe func() Probe
	// Run runs the process until ctx ends.
	Run func(ctx context.Context, log *slog.Logger) error
}

// Cobra returns the cobra command, for programs that compose several.
func (c Command) Cobra() *cobra.Command {
	var level, format string
	cmd := &cobra.Command{
		Use: c.Use, Short: c.Short, Version: c.Version,
		Args:          cobra.NoArgs,
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := FromEnvironment(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			log, err := NewLogger(cmd.ErrOrStderr(), level, format)
			if err != nil {
				return err
			}
			BridgeLibraryLogs(log)
			return c.Run(cmd.Context(), log)
		},
	}
	c.flags(cmd, &level, &format)
	SayVersion(cmd)
	if c.Probe != nil {
		cmd.AddCommand(c.healthcheck())
		cmd.CompletionOptions.DisableDefaultCmd = true
		cmd.SetHelpCommand(&cobra.Command{Hidden: true})
	}
	return cmd
}

// flags declares all flags of a command.
func (c Command) flags(cmd *cobra.Command, level, format *string) {
	if c.Flags != nil {
		c.Flags(cmd.Flags())
	}
	Group(cmd.Flags(), logsGroup, func(flags *pflag.FlagSet) {
		flags.StringVar(level, "log-level", orDefault(c.LogLevel, "info"), "least severe level that is logged: debug, info, warn or error")
		flags.StringVar(format, "log-format", orDefault(c.LogFormat, "text"), "text or json")
	})
	groupedHelp(cmd)
}

// SayVersion makes --version print the program's version, Go's version, and the Kubernetes release
// whose API is compiled in, in one line.
func SayVersion(cmd *cobra.Command) {
	// Not with SetVersionTemplate: a program with a template, which calls methods by name, keeps every
	// method of every type it converts to an interface, and is larger by a quarter.
	cmd.Version = fmt.Sprintf("%s (%s, Kubernetes %s)", cmd.Version, runtime.Version(), kubernetesRelease())
}

// kubernetesRelease returns that release: k8s.io/api v0.37.2 is that of v1.37.2.
func kubernetesRelease() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if rest, ok := strings.CutPrefix(module.Version, "v0."); ok && module.Path == "k8s.io/api" {
				return "v1." + rest
			}
		}
	}
	return "unknown"
}

// Main executes cmd with the process's arguments until it ends or the process receives SIGINT or
// SIGTERM, and returns the exit code: 0, or 1 after one sentence on stderr. A second signal ends
// the process at once.
func Main(cmd *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return Execute(ctx, cmd, os.Args[1:], os.Stderr)
}

// Execute is Main with everything that Main takes from the process as parameters.
func Execute(ctx context.Context, cmd *cobra.Command, args []string, stderr io.Writer) int {
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	if err == nil || errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return 0
	}
	_, _ = fmt.Fprintf(stderr, "error: %v\n", err)
	return 1
}

// FromEnvironment sets each flag that is not on the command line from its environment variable, if
// that is set.
func FromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var errs []error
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed || !hasEnv(flag) {
			return
		}
		name := EnvName(flag)
		value, ok := lookup(name)
		if !ok {
			return
		}
		if err := flags.Set(flag.Name, value); err != nil {
			errs = append(errs, fmt.Errorf("environment variable %s: %w", name, err))
		}
	})
	return errors.Join(errs...)
}

func orDefault(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
