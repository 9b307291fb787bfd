package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/cmd/garboard/internal/jointoken"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/libs/pki"
	"github.com/garboard/garboard/libs/scheme"
)

func tokenCommand() *cobra.Command {
	var kubeconfig string
	cmd := &cobra.Command{
		Use: "token", Short: "Manage the bootstrap tokens by which nodes join",
		Long: `Manage the bootstrap tokens by which nodes join.

A token has the form [a-z0-9]{6}.[a-z0-9]{16}: a public ID and a secret. It is stored in a Secret
named bootstrap-token-ID in the namespace kube-system, like kubeadm's. docs/operate/join.md
describes how a node joins.`,
	}
	cmd.PersistentFlags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file; when empty, the one that kubectl uses")
	cmd.AddCommand(tokenCreateCommand(&kubeconfig), tokenListCommand(&kubeconfig), tokenDeleteCommand(&kubeconfig), tokenGenerateCommand())
	return cmd
}

// connect returns a client from a kubeconfig, after setting flags that the command line omits from
// the environment.
func connect(cmd *cobra.Command, kubeconfig *string) (*rest.Config, client.Interface, error) {
	if err := daemon.FromEnvironment(cmd.Flags(), os.LookupEnv); err != nil {
		return nil, nil, err
	}
	config, err := client.LoadConfig(*kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	api, err := client.New(config, scheme.New())
	return config, api, err
}

// tokenCreate holds the arguments of `token create`.
type tokenCreate struct {
	token             jointoken.Token
	file              string
	ttl               time.Duration
	printJoin         bool
	server, bootstrap string
	natsServers       []string
	renewal           tokenRenewal
}

func tokenCreateCommand(kubeconfig *string) *cobra.Command {
	var c tokenCreate
	cmd := &cobra.Command{
		Use: "create [TOKEN]", Short: "Create a bootstrap token, and let nodes join with it",
		Long: `Create a bootstrap token, and let nodes join with it.

Without TOKEN and --token-file a new token is generated. An existing token is kept and its expiry
extended. The command also creates the ClusterRoleBindings by which nodes with a token of the group
` + jointoken.DefaultGroup + ` get and renew their certificates: kubeadm:kubelet-bootstrap,
kubeadm:node-autoapprove-bootstrap and kubeadm:node-autoapprove-certificate-rotation.`,
		Example: `  garboard token create
  garboard token create --ttl 24h --print-join-command
  garboard token create --bootstrap-kubeconfig bootstrap-kubeconfig
  garboard token create --bootstrap-kubeconfig bootstrap-kubeconfig --renew-every 20m`,
		Args: cobra.MaximumNArgs(1), SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			config, api, err := connect(cmd, kubeconfig)
			if err != nil {
				return err
			}
			return c.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), config, api, args)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&c.ttl, "ttl", jointoken.DefaultTTL, "validity of the token (e.g. 1s, 2m, 3h); 0 for no expiry")
	flags.StringVar(&c.token.Description, "description", "", "human-readable description of the token's purpose")
	flags.StringSliceVar(&c.token.Usages, "usages", jointoken.Usages(), "permitted uses of the token")
	flags.StringSliceVar(&c.token.Groups, "groups", []string{jointoken.DefaultGroup}, "additional groups of the token's user, which begin with system:bootstrappers:")
	flags.StringVar(&c.file, "token-file", "", "file with the token")
	flags.StringVar(&c.bootstrap, "bootstrap-kubeconfig", "", "file to write a bootstrap kubeconfig with the token to, for node agents")
	flags.BoolVar(&c.printJoin, "print-join-command", false, "print the command that makes a machine join, instead of the token alone")
	flags.StringVar(&c.server, "server", "", "URL of the API for nodes; when empty, that of the kubeconfig")
	flags.StringSliceVar(&c.natsServers, "nats-servers", nil, "NATS servers for nodes, in that command; when empty, port 4222 of the API's host")
	c.renewal.flags(flags)
	return cmd
}

func (c *tokenCreate) run(ctx context.Context, out, problems io.Writer, config *rest.Config, api client.Interface, args []string) error {
	if err := c.renewal.check(c, args); err != nil {
		return err
	}
	if c.renewal.every > 0 {
		return c.renew(ctx, out, problems, config, api)
	}
	return c.create(ctx, out, config, api, args)
}

// create creates or extends one token and distributes it.
func (c *tokenCreate) create(ctx context.Context, out io.Writer, config *rest.Config, api client.Interface, args []string) error {
	if err := c.choose(args, time.Now()); err != nil {
		return err
	}
	if err := jointoken.Bind(ctx, api); err != nil {
		return err
	}
	if err := jointoken.Put(ctx, api, c.token); err != nil {
		return err
	}
	text := c.token.String()
	if c.printJoin || c.kept() {
		file, err := c.kubeconfig(config)
		if err != nil {
			return err
		}
		if err := c.keep(ctx, file); err != nil {
			return err
		}
		if c.printJoin {
			text = c.command(file)
		}
	}
	if err := c.retireToken(ctx, api); err != nil {
		return err
	}
	// A user who has the file needs no copy of the token in a log.
	switch {
	case c.printJoin:
	case c.file != "":
		text = fmt.Sprintf("bootstrap token %q from %s is valid", c.token.ID, c.file)
	case c.renewal.every > 0 || c.renewal.secret != "":
		text = fmt.Sprintf("bootstrap token %q is valid until %s", c.token.ID, c.token.Expires.UTC().Format(time.RFC3339))
	}
	_, err := fmt.Fprintln(out, text)
	return err
}

// kept reports whether the bootstrap kubeconfig is written somewhere.
func (c *tokenCreate) kept() bool { return c.bootstrap != "" || c.renewal.secret != "" }

// choose determines the token and its properties.
func (c *tokenCreate) choose(args []string, now time.Time) error {
	token, err := jointoken.Generate()
	if err != nil {
		return err
	}
	switch {
	case len(args) > 0 && c.file != "":
		return errors.New("give either a token or --token-file, not both")
	case len(args) > 0 || c.file != "":
		text := ""
		if c.file != "" {
			data, err := os.ReadFile(c.file)
			if err != nil {
				return fmt.Errorf("reading the token: %w", err)
			}
			text = strings.TrimSpace(string(data))
		} else {
			text = args[0]
		}
		given, err := jointoken.Parse(text)
		if err != nil {
			return err
		}
		token = given
	}
	c.token.ID, c.token.Secret = token.ID, token.Secret
	if c.ttl < 0 {
		return fmt.Errorf("--ttl %v: must not be negative; 0 means no expiry", c.ttl)
	}
	if c.ttl > 0 {
		c.token.Expires = now.Add(c.ttl)
	}
	return c.token.Check()
}

// kubeconfig returns a bootstrap kubeconfig with the token, for nodes.
func (c *tokenCreate) kubeconfig(config *rest.Config) ([]byte, error) {
	config = rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("reading the plane's CA certificate: %w", err)
	}
	if len(config.CAData) == 0 {
		return nil, errors.New("the kubeconfig has no CA certificate by which nodes could verify the apiserver")
	}
	if c.server == "" {
		c.server = config.Host
	}
	return pki.Kubeconfig{Server: c.server, CA: config.CAData, Token: c.token.String()}.Encode()
}

// command returns the command that makes a machine join: it writes the bootstrap kubeconfig and
// starts the agent.
func (c *tokenCreate) command(kubeconfig []byte) string {
	servers := c.natsServers
	if len(servers) == 0 {
		host := "127.0.0.1"
		if server, err := url.Parse(c.server); err == nil && server.Hostname() != "" {
			host = server.Hostname()
		}
		servers = []string{"tls://" + net.JoinHostPort(host, "4222")}
	}
	return fmt.Sprintf("umask 077 && echo %s | base64 -d > bootstrap-kubeconfig && nodeagent --bootstrap-kubeconfig bootstrap-kubeconfig --nats-servers %s",
		base64.StdEncoding.EncodeToString(kubeconfig), strings.Join(servers, ","))
}

func tokenListCommand(kubeconfig *string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the bootstrap tokens, with their secrets",
		Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, api, err := connect(cmd, kubeconfig)
			if err != nil {
				return err
			}
			return listTokens(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), api)
		},
	}
}

func listTokens(ctx context.Context, out, problems io.Writer, api client.Interface) error {
	tokens, faults, err := jointoken.List(ctx, api)
	if err != nil {
		return err
	}
	for _, fault := range faults {
		fmt.Fprintln(problems, fault)
	}
	table := tabwriter.NewWriter(out, 10, 4, 3, ' ', 0)
	fmt.Fprintln(table, strings.Join(jointoken.Columns(), "\t"))
	left := func(end time.Time) string { return duration.ShortHumanDuration(time.Until(end)) }
	for _, token := range tokens {
		fmt.Fprintln(table, strings.Join(token.Row(left), "\t"))
	}
	return table.Flush()
}

func tokenDeleteCommand(kubeconfig *string) *cobra.Command {
	return &cobra.Command{
		Use: "delete TOKEN...", Short: "Delete bootstrap tokens, given whole or by their IDs",
		Args: cobra.MinimumNArgs(1), SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			_, api, err := connect(cmd, kubeconfig)
			if err != nil {
				return err
			}
			return deleteTokens(cmd.Context(), cmd.OutOrStdout(), api, args)
		},
	}
}

func deleteTokens(ctx context.Context, out io.Writer, api client.Interface, texts []string) error {
	for _, text := range texts {
		id, err := jointoken.ParseID(text)
		if err != nil {
			return err
		}
		if err := jointoken.Delete(ctx, api, id); err != nil {
			return err
		}
		fmt.Fprintf(out, "bootstrap token %q deleted\n", id)
	}
	return nil
}

func tokenGenerateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "generate", Short: "Print a new bootstrap token, without creating it",
		Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			token, err := jointoken.Generate()
			if err == nil {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			}
			return err
		},
	}
}
