package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/changefeed"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
)

// watcher holds the arguments of `garboard watch`.
type watcher struct {
	kubeconfig, namespace, node    string
	output, since                  string
	all, objects, resolve, history bool
	bus                            bus.Config
	loaded                         *rest.Config // nil without a kubeconfig
	current                        string       // the kubeconfig's namespace
}

func watchCommand() *cobra.Command {
	var w watcher
	var level string
	cmd := &cobra.Command{
		Use: "watch RESOURCE [NAME]", Short: "Stream the changes of a resource from NATS, as JSON lines or protobuf",
		Long: `Stream each change of a resource, once and in order, as it arrives over NATS.

Changes whose messages were lost are reported once per object, with its newest state
("origin":"answer"); changes that can no longer be determined are reported by a line of type GAP.
docs/explanation/fabric.md explains the messages.

The command presents the kubeconfig's credential for the apiserver to NATS: its token, or its client
certificate if the server's URL begins with tls://. In that case it also trusts the kubeconfig's CA.`,
		Example: `  garboard watch pods -A
  garboard watch deployments.apps -n default nginx --since 10m
  garboard watch pods -A --node node-1 --nats-servers tls://127.0.0.1:4222 -o proto`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := daemon.FromEnvironment(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			log, err := daemon.NewLogger(cmd.ErrOrStderr(), level, "text")
			if err != nil {
				return err
			}
			if err := w.load(); err != nil {
				return err
			}
			table := scheme.New()
			cfg, err := w.config(table, args, time.Now())
			if err != nil {
				return err
			}
			emit, err := w.writer(cmd.OutOrStdout(), table)
			if err != nil {
				return err
			}
			servers := w.bus
			servers.Logger = log
			conn, err := bus.Connect(cmd.Context(), client.BusConfig(w.loaded, servers))
			if err != nil {
				return err
			}
			defer conn.Close()
			cfg.Conn, cfg.Logger = conn, log
			if err := changefeed.Read(cmd.Context(), cfg, emit); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&w.kubeconfig, "kubeconfig", "", "kubeconfig file; when empty, the one that kubectl uses")
	flags.StringVarP(&w.namespace, "namespace", "n", "", "namespace; when empty, the kubeconfig's")
	flags.BoolVarP(&w.all, "all-namespaces", "A", false, "all namespaces")
	flags.StringVar(&w.node, "node", "", "only pods on this node, where pods that leave it have type LEFT; ~ for pods without a node")
	flags.StringVarP(&w.output, "output", "o", "json", "json (a line for each change) or proto (garboard.watch.v1.Message, each prefixed by its length)")
	flags.StringVar(&w.since, "since", "", "start in the past, as far back as the log reaches: a duration (10m), a time (2026-01-02T15:04:05Z), a revision (after it), or all")
	flags.BoolVar(&w.objects, "objects", false, "start with the existing objects")
	flags.BoolVar(&w.resolve, "resolve", false, "request bodies that messages omit: those of Secrets and of large objects")
	flags.BoolVar(&w.history, "no-follow", false, "end where live changes would begin")
	flags.StringSliceVar(&w.bus.URLs, "nats-servers", []string{"nats://127.0.0.1:4222"}, "URLs of the NATS servers; the client connects to any one of them")
	flags.BoolVar(&w.bus.Insecure, "nats-insecure", false, "allow NATS servers on other machines without TLS; credentials and changes can then be read in transit")
	flags.StringVar(&w.bus.Token, "nats-token", "", "bearer token to present to NATS in place of the kubeconfig's; preferably set by GARBOARD_NATS_TOKEN")
	flags.StringVar(&w.bus.User, "nats-user", "", "NATS user name, for users that NATS itself defines")
	flags.StringVar(&w.bus.Password, "nats-password", "", "NATS password; preferably set by GARBOARD_NATS_PASSWORD")
	flags.StringVar(&w.bus.CAFile, "nats-ca-file", "", "PEM file of the CA of the NATS servers; when empty and the URL begins with tls://, the kubeconfig's")
	flags.StringVar(&w.bus.CertFile, "nats-cert-file", "", "PEM file of the client certificate for NATS in place of the kubeconfig's")
	flags.StringVar(&w.bus.KeyFile, "nats-key-file", "", "PEM file of that certificate's key")
	flags.StringVar(&level, "log-level", "warn", "minimum level to log: debug, info, warn or error")
	return cmd
}

// load reads the kubeconfig. It may be missing if none is named.
func (w *watcher) load() error {
	w.bus.Name = "garboard watch"
	config, namespace, err := client.LoadNamespace(w.kubeconfig)
	if err != nil {
		if w.kubeconfig != "" || os.Getenv("KUBECONFIG") != "" {
			return err
		}
		w.current = "default"
		return nil
	}
	w.loaded, w.current = config, namespace
	if w.bus.CAFile == "" && slices.ContainsFunc(w.bus.URLs, func(url string) bool { return strings.HasPrefix(url, "tls://") }) {
		w.bus.CAFile, w.bus.CA = config.CAFile, config.CAData
	}
	return nil
}

// config returns what to read.
func (w *watcher) config(table *scheme.Table, args []string, now time.Time) (changefeed.Config, error) {
	kind, err := findKind(table, args[0])
	if err != nil {
		return changefeed.Config{}, err
	}
	cfg := changefeed.Config{
		Resource: kind.GroupResource(), View: fabric.View{Scope: w.node},
		Objects: w.objects, Resolve: w.resolve, Once: w.history,
	}
	if len(args) > 1 {
		cfg.View.Name = args[1]
	}
	switch {
	case w.all && w.namespace != "", w.all && kind.Namespaced && cfg.View.Name != "":
		return cfg, errors.New("-A cannot be used with -n or a name")
	case kind.Namespaced && !w.all:
		if cfg.View.Namespace = w.namespace; cfg.View.Namespace == "" {
			cfg.View.Namespace = w.current
		}
	}
	if w.node != "" && kind.Scope == nil {
		return cfg, fmt.Errorf("--node: %s do not belong to a node", kind.Resource)
	}
	if w.since == "" {
		if w.history && !w.objects {
			return cfg, errors.New("--no-follow without --since or --objects has no output")
		}
		return cfg, nil
	}
	if w.objects {
		return cfg, errors.New("--objects and --since cannot be used together")
	}
	cfg.History = true
	if w.since == "all" {
		return cfg, nil
	}
	if ago, err := time.ParseDuration(w.since); err == nil && ago > 0 {
		cfg.Since = now.Add(-ago)
		return cfg, nil
	}
	if at, err := time.Parse(time.RFC3339, w.since); err == nil {
		cfg.Since = at
		return cfg, nil
	}
	if revision, err := strconv.ParseInt(w.since, 10, 64); err == nil && revision > 0 {
		cfg.After = revision
		return cfg, nil
	}
	return cfg, fmt.Errorf("--since %q: give a duration like 10m, a time like 2026-01-02T15:04:05Z, a revision, or all", w.since)
}

func (w *watcher) writer(out io.Writer, table *scheme.Table) (func(changefeed.Record) error, error) {
	switch w.output {
	case "json":
		return changefeed.JSON(out, table), nil
	case "proto":
		return changefeed.Protobuf(out), nil
	}
	return nil, fmt.Errorf("-o %q: give json or proto", w.output)
}

// findKind returns the kind of a resource named as in kubectl: pods, pod, po, deployments.apps.
func findKind(table *scheme.Table, name string) (*scheme.Kind, error) {
	name = strings.ToLower(name)
	resource, group, grouped := strings.Cut(name, ".")
	var virtual bool
	for _, kind := range table.Kinds() {
		if grouped && kind.Group != group ||
			resource != kind.Resource && resource != kind.Singular && !slices.Contains(kind.ShortNames, resource) {
			continue
		}
		if kind.Stored() {
			return kind, nil
		}
		virtual = true
	}
	if virtual {
		return nil, fmt.Errorf("%s has no messages of its own: it is a review, or shows objects of another resource", name)
	}
	return nil, fmt.Errorf("the server doesn't have a resource type %q", name)
}
