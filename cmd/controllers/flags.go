package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/services/controllers"
)

func controllerFlags(set *pflag.FlagSet, cfg *controllers.Config) {
	daemon.Group(set, "Controllers", func(set *pflag.FlagSet) { selectionFlags(set, cfg) })
	daemon.Group(set, "Certificate signing", func(set *pflag.FlagSet) { signingFlags(set, cfg) })
}

func signingFlags(set *pflag.FlagSet, cfg *controllers.Config) {
	set.StringVar(&cfg.SigningCertFile, "cluster-signing-cert-file", "", "PEM file of the CA that signs approved CertificateSigningRequests, read again when it changes; when empty, none is signed")
	set.StringVar(&cfg.SigningKeyFile, "cluster-signing-key-file", "", "PEM file of that CA's key")
	set.DurationVar(&cfg.SigningDuration, "cluster-signing-duration", controllers.DefaultSigningDuration, "maximum validity of signed certificates; a request may ask for less")
}

func selectionFlags(set *pflag.FlagSet, cfg *controllers.Config) {
	set.StringSliceVar(&cfg.Controllers, "controllers", []string{"*"}, "controllers to run: * stands for all, name for one, -name for none of that name; known are "+
		strings.Join(controllers.Names(), ", "))
	set.StringVar(&cfg.LeaseName, "leader-elect-resource-name", controllers.DefaultLeaseName,
		"Lease in kube-system by which one replica leads; replicas that run other controllers need another one")
}
