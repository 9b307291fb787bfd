package main

import (
	"github.com/spf13/pflag"

	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/services/controllers"
)

func controllerFlags(set *pflag.FlagSet, cfg *controllers.Config) {
	daemon.Group(set, "Certificate signing", func(set *pflag.FlagSet) { signingFlags(set, cfg) })
}

func signingFlags(set *pflag.FlagSet, cfg *controllers.Config) {
	set.StringVar(&cfg.SigningCertFile, "cluster-signing-cert-file", "", "PEM file of the CA that signs approved CertificateSigningRequests, read again when it changes; when empty, none is signed")
	set.StringVar(&cfg.SigningKeyFile, "cluster-signing-key-file", "", "PEM file of that CA's key")
	set.DurationVar(&cfg.SigningDuration, "cluster-signing-duration", controllers.DefaultSigningDuration, "maximum validity of signed certificates; a request may ask for less")
}
