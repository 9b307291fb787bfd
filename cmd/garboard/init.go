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

// initCommand makes what the programs of a deployment know each other by.
func initCommand() *cobra.Command {
	var cfg deployment.Config
	var owners []string
	var store secretStore
	cmd := &cobra.Command{
		Use: "init", Short: "Make the certificates, keys and kubeconfigs of a deployment, a folder for each program",
		Long: `Make the certificates, keys and kubeconfigs of a deployment, a folder for each program.

It may be run again at any time: what is good is kept, what is missing is made, certificates that
end within 30 days or lack a name are made anew, and an authority is never replaced. The folder
ca holds the authorities' keys; no program needs it.`,
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
	flags.StringVar(&cfg.Dir, "out", "", "folder to make or complete; required without --secrets")
	flags.StringSliceVar(&owners, "owner", nil, "whose the files are, UID[:GID], or FOLDER=UID[:GID] for one folder, separated by commas; this user's when empty")
	flags.StringSliceVar(&cfg.APIServerHosts, "apiserver-hosts", nil, "further names and addresses of the API, beside apiserver, gateway, kubernetes and localhost")
	flags.StringSliceVar(&cfg.EtcdHosts, "etcd-hosts", nil, "further names and addresses of etcd, beside etcd, etcd-1 to etcd-3 and localhost")
	flags.StringSliceVar(&cfg.NATSHosts, "nats-hosts", nil, "further names and addresses of NATS, beside nats, nats-1 to nats-3 and localhost")
	flags.StringVar(&cfg.Server, "server", deployment.DefaultServer, "URL of the API in the kubeconfigs of controllers, scheduler and node agents")
	flags.StringVar(&cfg.AdminServer, "admin-server", deployment.DefaultAdminServer, "URL of the API in the administrator's kubeconfig")
	flags.StringVar(&cfg.ServiceCIDR, "service-cluster-ip-range", deployment.DefaultServiceCIDR, "range of service addresses, as the apiservers have it: the API is reached at the first of them, too")
	store.flags(flags)
	return cmd
}

// parseOwners reads UID[:GID] and FOLDER=UID[:GID].
func parseOwners(texts []string) (map[string]pki.Owner, error) {
	owners := map[string]pki.Owner{}
	for _, text := range texts {
		folder, who, named := strings.Cut(text, "=")
		if !named {
			folder, who = "", text
		}
		user, group, both := strings.Cut(who, ":")
		if !both {
			group = user
		}
		uid, userErr := strconv.ParseUint(user, 10, 31)
		gid, groupErr := strconv.ParseUint(group, 10, 31)
		if userErr != nil || groupErr != nil || named && folder == "" {
			return nil, fmt.Errorf("--owner %q: give UID, UID:GID, FOLDER=UID or FOLDER=UID:GID, in numbers", text)
		}
		if _, twice := owners[folder]; twice {
			return nil, fmt.Errorf("--owner %q: this owner is given twice", text)
		}
		owners[folder] = pki.Owner{UID: int(uid), GID: int(gid)}
	}
	return owners, nil
}
