package main

import (
	"strconv"

	"github.com/spf13/pflag"

	"github.com/garboard/garboard/services/apiserver"
)

// accessFlags are kube-apiserver's flags on who may log in.
func accessFlags(set *pflag.FlagSet, cfg *apiserver.Config) {
	who := &cfg.Authentication
	set.StringVar(&who.ClientCAFile, "client-ca-file", "", "PEM file of authorities whose client certificates count, beside the plane's own; read again when it changes")
	set.StringVar(&who.TokenFile, "token-auth-file", "", "CSV file of further bearer tokens: token,user,uid,\"group,...\"; read again when it changes")
	unless(set, &who.NoAnonymous, "anonymous-auth", "let requests without a credential through, as user system:anonymous")
	set.StringSliceVar(&who.AnonymousPaths, "anonymous-auth-paths", nil, "the only paths where requests without a credential are let through; all when empty")
	unless(set, &who.NoBootstrapTokens, "enable-bootstrap-token-auth", "accept the tokens in Secrets of type bootstrap.kubernetes.io/token")
	set.StringSliceVar(&who.Issuers, "service-account-issuer", []string{apiserver.DefaultIssuer}, "issuer of service account tokens; when there are several, the first is that of new tokens")
	set.StringSliceVar(&who.Audiences, "api-audiences", nil, "audiences of the API; the issuers when empty")
	set.StringSliceVar(&who.KeyFiles, "service-account-key-file", nil, "PEM files of further public keys by which service account tokens may be signed")
	set.StringVar(&who.KeysURI, "service-account-jwks-uri", "", "URL of the public keys in the discovery document of service account tokens; at this server when empty")
	set.DurationVar(&who.MaxTokenLife, "service-account-max-token-expiration", 0, "longest life of a service account token; no bound when 0")
	unless(set, &who.NoTokenExtension, "service-account-extend-token-expiration", "have tokens that pods mount be valid for a year, for programs that do not read them again")
}

// unless defines a switch that is on by default, whose opposite is kept in off.
func unless(set *pflag.FlagSet, off *bool, name, usage string) {
	set.VarPF((*opposite)(off), name, "", usage).NoOptDefVal = "true"
}

type opposite bool

// Set reads the switch.
func (o *opposite) Set(text string) error {
	on, err := strconv.ParseBool(text)
	*o = opposite(!on)
	return err
}

// String is the switch's value, not the one that is kept.
func (o *opposite) String() string { return strconv.FormatBool(!bool(*o)) }

// Type is pflag's name of it.
func (o *opposite) Type() string { return "bool" }
