package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/libs/pki"
	"github.com/garboard/garboard/libs/pki/deployment"
)

// initCommand returns the command that creates the credentials of a deployment's programs.
func initCommand() *cobra.Command {
	var cfg deployment.Config
	var owners []string
	var store secretStore
	cmd := &cobra.Command{
		Use: "init", Short: "Create the certificates, keys and kubeconfigs of a deployment, one directory per program",
		Long: `Create the certificates, keys and kubeconfigs of a deployment, one directory per program.

The command may be run again at any time: it keeps valid files, creates missing ones, and replaces
certificates that end within 30 days or lack a name. It never replaces a CA. The directory ca
holds the CAs' keys; no program needs it.`,
		Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := daemon.FromEnvironment(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			if cfg.Owners, err = parseOwners(owners); err != nil {
				return err
			}
			if store.wanted() {
				return store.fill(cmd.Context(), cfg, cmd.OutOrStdout())
			}
			cfg.Report = func(file deployment.File) { _, _ = fmt.Fprintln(cmd.OutOrStdout(), file) }
			return deployment.Fill(cfg)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.Dir, "out", "", "directory to create or complete; required without --secrets")
	flags.StringSliceVar(&owners, "owner", nil, "owner of the files, UID[:GID], or FOLDER=UID[:GID] for one directory, separated by commas; when empty, the current user")
	flags.StringSliceVar(&cfg.APIServerHosts, "apiserver-hosts", nil, "additional names and addresses of the API, besides apiserver, gateway, kubernetes and localhost")
	flags.StringSliceVar(&cfg.EtcdHosts, "etcd-hosts", nil, "additional names and addresses of etcd, besides etcd, etcd-1 to etcd-3 and localhost")
	flags.StringSliceVar(&cfg.NATSHosts, "nats-hosts", nil, "additional names and addresses of NATS, besides nats, nats-1 to nats-3 and localhost")
	flags.StringVar(&cfg.Server, "server", deployment.DefaultServer, "URL of the API in the kubeconfigs of controllers, scheduler and node agents")
	flags.StringVar(&cfg.AdminServer, "admin-server", deployment.DefaultAdminServer, "URL of the API in the administrator's kubeconfig")
	flags.StringVar(&cfg.ServiceCIDR, "service-cluster-ip-range", deployment.DefaultServiceCIDR, "range of service addresses, the same as the apiservers': the API is reached at its first address, too")
	store.flags(flags)
	return cmd
}

// parseOwners parses UID[:GID] and FOLDER=UID[:GID].
func parseOwners(texts []string) (map[string]pki.Owner, error) {
	owners := map[string]pki.Owner{}
	for _, text := range texts {
		folder, owner, named := strings.Cut(text, "=")
		if !named {
			folder, owner = "", text
		}
		user, group, both := strings.Cut(owner, ":")
		if !both {
			group = user
		}
		uid, userErr := strconv.ParseUint(user, 10, 31)
		gid, groupErr := strconv.ParseUint(group, 10, 31)
		if userErr != nil || groupErr != nil || named && folder == "" {
			return nil, fmt.Errorf("--owner %q: give UID, UID:GID, FOLDER=UID or FOLDER=UID:GID, in numbers", text)
		}
		if _, twice := owners[folder]; twice {
			return nil, fmt.Errorf("--owner %q: the owner is given twice", text)
		}
		owners[folder] = pki.Owner{UID: int(uid), GID: int(gid)}
	}
	return owners, nil
}
