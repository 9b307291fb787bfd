package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/garboard/garboard/cmd/garboard/internal/snapshotfile"
	"github.com/garboard/garboard/libs/client"
)

func snapshotCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "snapshot", Short: "Save the content of etcd to a file, and inspect such a file",
		Long: `Save the content of etcd to a file, and inspect such a file.

A snapshot holds everything in the API, Secrets included. docs/operate/restore.md describes how to
restore etcd from it.`,
	}
	cmd.AddCommand(snapshotSaveCommand(), snapshotStatusCommand())
	return cmd
}

func snapshotSaveCommand() *cobra.Command {
	var kubeconfig string
	var opts snapshotfile.Options
	cmd := &cobra.Command{
		Use: "save FILE", Short: "Get a snapshot of etcd from an apiserver",
		Long: `Get a snapshot of etcd from an apiserver, without a connection to etcd.

FILE is replaced once the whole snapshot has arrived and its hash matches the one that etcd
computed; if anything fails, FILE stays unchanged. Members of system:masters may run this command,
and users who may use the verb get on the nonResourceURL /admin/garboard/snapshot.`,
		Example: `  garboard snapshot save backup.db
  garboard snapshot save events.db --etcd events`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := client.LoadConfig(kubeconfig)
			if err != nil {
				return err
			}
			p := newProgress(cmd.ErrOrStderr())
			opts.Progress = p.report
			saved, err := snapshotfile.Save(cmd.Context(), config, args[0], opts)
			p.end()
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			_, _ = fmt.Fprintf(out, "Saved etcd %q in %s in %v; its hash is right.\n", saved.Etcd, args[0], saved.Took.Round(time.Millisecond))
			if len(saved.Others) > 0 {
				_, _ = fmt.Fprintf(out, "It does not include etcd %s; save that too, with --etcd.\n", strings.Join(saved.Others, ", "))
			}
			return writeInfo(out, saved.Info, "")
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file; when empty, the one that kubectl uses")
	cmd.Flags().StringVar(&opts.Etcd, "etcd", "", "the etcd cluster: main, or a resource with its own cluster (--etcd-servers-overrides); when empty, main")
	return cmd
}

func snapshotStatusCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "status FILE", Short: "Verify a snapshot and describe its content",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			info, err := snapshotfile.Look(args[0])
			if err != nil {
				return err
			}
			return writeInfo(cmd.OutOrStdout(), info, output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json; when empty, a table")
	return cmd
}

func writeInfo(w io.Writer, info snapshotfile.Info, output string) error {
	switch output {
	case "":
		_, err := fmt.Fprintf(w, "REVISION\tTOTAL KEYS\tSIZE\tSHA-256\n%d\t%d\t%s\t%s\n", info.Revision, info.TotalKeys, bytesText(info.Size), info.SHA256)
		return err
	case "json":
		return json.NewEncoder(w).Encode(info)
	}
	return fmt.Errorf("--output %q: give json, or nothing for a table", output)
}

// bytesText formats a number of bytes for people.
func bytesText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	value := float64(n)
	unit := 0
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

// The intervals of progress reports: live in one line on a terminal, else in separate lines.
const (
	progressLive  = 200 * time.Millisecond
	progressLines = 5 * time.Second
)

// progress reports the progress of a transfer to a person.
type progress struct {
	to    io.Writer
	live  bool
	began time.Time
	last  time.Time
	shown bool
}

func newProgress(to io.Writer) *progress {
	now := time.Now()
	return &progress{to: to, live: isTerminal(to), began: now, last: now}
}

// isTerminal reports whether output goes to a terminal.
func isTerminal(to io.Writer) bool {
	file, ok := to.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (p *progress) report(bytes, about int64) {
	every := progressLines
	if p.live {
		every = progressLive
	}
	now := time.Now()
	if now.Sub(p.last) < every {
		return
	}
	p.last, p.shown = now, true
	rate := float64(bytes) / now.Sub(p.began).Seconds()
	text := fmt.Sprintf("%s, %s/s", bytesText(bytes), bytesText(int64(rate)))
	if about > bytes {
		text = fmt.Sprintf("%s of about %s, %s/s", bytesText(bytes), bytesText(about), bytesText(int64(rate)))
	}
	if p.live {
		_, _ = fmt.Fprintf(p.to, "\r\x1b[K%s", text)
	} else {
		_, _ = fmt.Fprintln(p.to, text)
	}
}

// end clears the live line for the next output.
func (p *progress) end() {
	if p.live && p.shown {
		_, _ = fmt.Fprint(p.to, "\r\x1b[K")
	}
}
