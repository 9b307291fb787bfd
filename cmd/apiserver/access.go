package main

import (
	"errors"
	"strconv"
	"time"

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

// requestFlags are kube-apiserver's flags on how many requests are served.
func requestFlags(set *pflag.FlagSet, cfg *apiserver.Config) {
	unbounded(set, &cfg.MaxReads, "max-requests-inflight", apiserver.DefaultMaxReads, "how many requests that only read are in work at a time; no bound when 0")
	unbounded(set, &cfg.MaxWrites, "max-mutating-requests-inflight", apiserver.DefaultMaxWrites, "how many requests that change something are in work at a time; no bound when 0")
	cfg.RequestTimeout = apiserver.DefaultRequestTimeout
	set.Var((*patience)(&cfg.RequestTimeout), "request-timeout", "how long a request may take, unless it is long-running, as watches and logs are")
}

// auditFlags are kube-apiserver's flags on what is written down of requests.
func auditFlags(set *pflag.FlagSet, cfg *apiserver.Config) {
	set.StringVar(&cfg.Audit.PolicyFile, "audit-policy-file", "", "file of kind Policy in audit.k8s.io/v1 that says what is written to the audit log; nothing when empty")
	set.StringVar(&cfg.Audit.LogPath, "audit-log-path", "", "file of the audit log, - for the standard output; none when empty")
	set.IntVar(&cfg.Audit.MaxSize, "audit-log-maxsize", apiserver.DefaultAuditSize, "size in megabytes at which the audit log is put aside; never when 0")
	set.IntVar(&cfg.Audit.MaxAge, "audit-log-maxage", apiserver.DefaultAuditAge, "for how many days audit logs that were put aside are kept; for ever when 0")
	set.IntVar(&cfg.Audit.MaxBackups, "audit-log-maxbackup", apiserver.DefaultAuditBackups, "how many audit logs that were put aside are kept; all when 0")
	set.StringVar(&cfg.Audit.Mode, "audit-log-mode", apiserver.DefaultAuditMode, "how requests wait for the audit log: blocking, batch or blocking-strict")
}

// unbounded defines a number of which 0 says that there is no bound; a Config says that by a
// negative one, since its 0 is the default.
func unbounded(set *pflag.FlagSet, number *int, name string, preset int, usage string) {
	*number = preset
	set.Var((*bound)(number), name, usage)
}

type bound int

// Set reads the number.
func (b *bound) Set(text string) error {
	number, err := strconv.Atoi(text)
	if err == nil && number < 0 {
		err = errors.New("it can not be negative value")
	}
	if number == 0 {
		number = -1
	}
	*b = bound(number)
	return err
}

// String is the flag's value, not the one that is kept.
func (b *bound) String() string { return strconv.Itoa(max(int(*b), 0)) }

// Type is pflag's name of it.
func (b *bound) Type() string { return "int" }

// patience is a duration that is some time. A Config has a meaning for the others, which is for
// measurements.
type patience time.Duration

// Set reads the duration.
func (p *patience) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = errors.New("it must be more than 0")
	}
	*p = patience(d)
	return err
}

// String is the duration as Go spells it.
func (p *patience) String() string { return time.Duration(*p).String() }

// Type is pflag's name of it.
func (p *patience) Type() string { return "duration" }

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
