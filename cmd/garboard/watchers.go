package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/cmd/garboard/internal/plane"
	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/report"
)

// watchersPatience bounds one request: the apiserver waits 2 s for answers.
const watchersPatience = 30 * time.Second

func watchersCommand() *cobra.Command {
	var kubeconfig, output string
	var again bool
	var every time.Duration
	cmd := &cobra.Command{
		Use: "watchers", Short: "Show which process watches what, and how far it lags",
		Long: `Show what each informer of each process of the plane watches and how far it lags, largest lag
first.

The apiserver asks all processes over NATS and collects the answers of 2 seconds, so that nothing
but a kubeconfig is needed. LAG is the number of revisions by which an informer is behind the newest
it has heard of, and for how long. QUEUE is the number of changes that wait for its store, plus the
calls that wait for its slowest handler.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"", "wide", "json"}, output) {
				return fmt.Errorf("--output %q: give wide or json, or nothing for a table", output)
			}
			config, err := client.LoadConfig(kubeconfig)
			if err != nil {
				return err
			}
			for {
				if err := showWatchers(cmd.Context(), cmd.OutOrStdout(), config, output); err != nil || !again {
					return err
				}
				if !backoff.Sleep(cmd.Context(), every) {
					return nil
				}
				if output != "json" {
					_, _ = fmt.Fprintln(cmd.OutOrStdout())
				}
			}
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file; when empty, the one that kubectl uses")
	cmd.Flags().StringVarP(&output, "output", "o", "", "wide or json; when empty, a table")
	cmd.Flags().BoolVarP(&again, "watch", "w", false, "repeat the output")
	cmd.Flags().DurationVar(&every, "interval", 3*time.Second, "interval of --watch")
	return cmd
}

func showWatchers(ctx context.Context, w io.Writer, config *rest.Config, output string) error {
	ctx, cancel := context.WithTimeout(ctx, watchersPatience)
	defer cancel()
	var rows []report.Watcher
	if err := plane.GetJSON(ctx, config, report.WatchersPath, &rows); err != nil {
		return err
	}
	slices.SortStableFunc(rows, func(a, b report.Watcher) int {
		return cmp.Or(cmp.Compare(b.LagRevisions, a.LagRevisions), cmp.Compare(b.LagSeconds, a.LagSeconds), cmp.Compare(waiting(b), waiting(a)),
			cmp.Compare(a.Service, b.Service), cmp.Compare(a.Replica, b.Replica), cmp.Compare(a.Resource, b.Resource),
			cmp.Compare(viewText(a), viewText(b)))
	})
	if output == "json" {
		return json.NewEncoder(w).Encode(rows)
	}
	if len(rows) == 0 {
		return errors.New("no process answered: see what garboard doctor reports about NATS")
	}
	return writeWatchers(w, rows, output == "wide")
}

func writeWatchers(w io.Writer, rows []report.Watcher, wide bool) error {
	table := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	header := "SERVICE\tREPLICA\tRESOURCE\tVIEW\tREVISION\tLAG\tSTATE\tQUEUE"
	if wide {
		header += "\tOBJECTS\tSILENT\tHANDLERS\tUSER\tVERSION"
	}
	_, _ = fmt.Fprintln(table, header) // Flush returns its errors.
	for _, r := range rows {
		resource := r.Resource
		if r.Group != "" {
			resource += "." + r.Group
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%d", plane.Plain(r.Service), plane.Plain(r.Replica),
			plane.Plain(resource), plane.Plain(viewText(r)), r.Revision, lagText(r), stateText(r), waiting(r))
		if wide {
			silent := "never heard"
			if r.SilentSeconds >= 0 {
				silent = secondsText(r.SilentSeconds)
			}
			_, _ = fmt.Fprintf(table, "\t%d\t%s\t%d\t%s\t%s", r.Objects, silent, len(r.Handlers), plane.Plain(r.User), plane.Plain(r.Version))
		}
		_, _ = fmt.Fprintln(table)
	}
	return table.Flush()
}

func viewText(r report.Watcher) string {
	text := ""
	add := func(name, value string) {
		if value == "" {
			return
		}
		if text != "" {
			text += ","
		}
		text += name + "=" + value
	}
	add("namespace", r.View.Namespace)
	add("name", r.View.Name)
	add("node", r.View.Scope)
	if text == "" {
		return "all"
	}
	return text
}

func lagText(r report.Watcher) string {
	if r.LagRevisions == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", r.LagRevisions, secondsText(r.LagSeconds))
}

func secondsText(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(100 * time.Millisecond).String()
}

func stateText(r report.Watcher) string {
	via := ""
	if r.Via != "" {
		via = " via " + plane.Plain(r.Via)
		if r.Why != "" {
			via += " (" + plane.Plain(r.Why) + ")"
		}
	}
	switch {
	case r.Stopped:
		return "stopped"
	case !r.Started:
		return "not started"
	case !r.Synced:
		return "reading" + via
	}
	return "synced" + via
}

// waiting returns how many changes and calls wait in an informer: for its store, and for its
// slowest handler.
func waiting(r report.Watcher) int {
	most := 0
	for _, h := range r.Handlers {
		most = max(most, h.Pending)
	}
	return r.Queued + most
}
