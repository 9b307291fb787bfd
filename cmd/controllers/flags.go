package main

import (
	"github.com/spf13/pflag"

	"github.com/garboard/garboard/cmd/internal/flags/autoscaling"
	"github.com/garboard/garboard/cmd/internal/flags/nodelifecycle"
	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/services/controllers"
)

func controllerFlags(set *pflag.FlagSet, cfg *controllers.Config) {
	daemon.Group(set, "Controllers", func(set *pflag.FlagSet) { selectionFlags(set, cfg) })
	daemon.Group(set, "Pod ranges of nodes", func(set *pflag.FlagSet) { nodeIPAMFlags(set, cfg) })
	daemon.Group(set, "Volumes", func(set *pflag.FlagSet) { volumeFlags(set, cfg) })
	nodelifecycle.Flags(set, &cfg.NodeLifecycle)
	autoscaling.Flags(set, &cfg.Autoscaling, &cfg.MetricsServer)
	daemon.Group(set, "Certificate signing", func(set *pflag.FlagSet) { signingFlags(set, cfg) })
	daemon.Group(set, "Service account tokens in Secrets", func(set *pflag.FlagSet) { tokenFlags(set, cfg) })
}

func signingFlags(set *pflag.FlagSet, cfg *controllers.Config) {
	set.StringVar(&cfg.SigningCertFile, "cluster-signing-cert-file", "", "PEM file of the CA that signs approved CertificateSigningRequests, read again when it changes; when empty, none is signed")
	set.StringVar(&cfg.SigningKeyFile, "cluster-signing-key-file", "", "PEM file of that CA's key")
	set.DurationVar(&cfg.SigningDuration, "cluster-signing-duration", controllers.DefaultSigningDuration, "maximum validity of signed certificates; a request may ask for less")
}

func tokenFlags(set *pflag.FlagSet, cfg *controllers.Config) {
	set.StringVar(&cfg.TokenKeyFile, "service-account-private-key-file", "", "PEM file of the private key, RSA or ECDSA, that signs service account tokens in Secrets, such as the apiservers' sa.key; when empty, such Secrets stay without a token")
	set.DurationVar(&cfg.UnusedTokenPeriod, "legacy-service-account-token-clean-up-period", controllers.DefaultUnusedTokenPeriod, "time without use after which an automatically created service account token is refused, and after another such time deleted")
}

func volumeFlags(set *pflag.FlagSet, cfg *controllers.Config) {
	set.StringVar(&cfg.LocalPathClass, "local-path-storage-class", controllers.DefaultLocalPathClass, controllers.LocalPathClassUsage)
	o := &cfg.AttachDetach
	set.DurationVar(&o.SyncPeriod, "attach-detach-reconcile-sync-period", controllers.DefaultAttachSyncPeriod, "how often attached volumes are compared with their VolumeAttachments; at least one second")
	set.BoolVar(&o.DisableSync, "disable-attach-detach-reconcile-sync", false, "do not compare attached volumes with their VolumeAttachments")
	set.BoolVar(&o.DisableForceDetach, "disable-force-detach-on-timeout", false, "never detach a volume from a node that is not ready and has not unmounted it within six minutes; the taint node.kubernetes.io/out-of-service still does")
}

func selectionFlags(set *pflag.FlagSet, cfg *controllers.Config) {
	set.StringSliceVar(&cfg.Controllers, "controllers", []string{"*"}, controllers.ListUsage())
	set.StringVar(&cfg.LeaseName, "leader-elect-resource-name", controllers.DefaultLeaseName,
		"Lease in kube-system by which one replica leads; replicas that run other controllers need another one")
}

func nodeIPAMFlags(set *pflag.FlagSet, cfg *controllers.Config) {
	o := &cfg.NodeIPAM
	set.BoolVar(&o.Allocate, "allocate-node-cidrs", false, "give each node a range of pod addresses, in its spec.podCIDRs; needs a cluster CIDR")
	set.StringSliceVar(&o.ClusterCIDRs, "cluster-cidr", nil, "CIDR of all pods, or one of each IP family")
	set.StringSliceVar(&o.ServiceCIDRs, "service-cluster-ip-range", nil, "CIDR of Services, or one of each IP family; nodes get no range within")
	set.IntVar(&o.MaskSize, "node-cidr-mask-size", 0, "mask size in bits of a node's range, if there is one cluster CIDR; when 0, that of its IP family")
	set.IntVar(&o.MaskSizeIPv4, "node-cidr-mask-size-ipv4", 0, "mask size in bits of a node's IPv4 range; 24 when 0")
	set.IntVar(&o.MaskSizeIPv6, "node-cidr-mask-size-ipv6", 0, "mask size in bits of a node's IPv6 range, at most 16 more than the cluster's; 64 when 0")
}
