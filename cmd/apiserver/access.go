package main

import (
	"errors"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/garboard/garboard/services/apiserver"
)

// accessFlags declares kube-apiserver's flags for authentication.
func accessFlags(set *pflag.FlagSet, cfg *apiserver.Config) {
	auth := &cfg.Authentication
	set.StringVar(&auth.ClientCAFile, "client-ca-file", "", "PEM file of CAs whose client certificates are accepted, in addition to the plane's own; read again when it changes")
	set.StringVar(&auth.TokenFile, "token-auth-file", "", "CSV file of additional bearer tokens: token,user,uid,\"group,...\"; read again when it changes")
	unless(set, &auth.NoAnonymous, "anonymous-auth", "accept requests without a credential, as user system:anonymous")
	set.StringSliceVar(&auth.AnonymousPaths, "anonymous-auth-paths", nil, "the only paths where requests without a credential are accepted; when empty, all")
	unless(set, &auth.NoBootstrapTokens, "enable-bootstrap-token-auth", "accept the tokens in Secrets of type bootstrap.kubernetes.io/token")
	set.StringSliceVar(&auth.Issuers, "service-account-issuer", []string{apiserver.DefaultIssuer}, "issuer of service account tokens; if there are several, the first one issues new tokens")
	set.StringSliceVar(&auth.Audiences, "api-audiences", nil, "audiences of the API; when empty, the issuers")
	set.StringSliceVar(&auth.KeyFiles, "service-account-key-file", nil, "PEM files of additional public keys that verify service account tokens")
	set.StringVar(&auth.SigningEndpoint, "service-account-signing-endpoint", "", "Unix socket of a process that signs service account tokens and serves k8s.io/externaljwt v1: a path, or @NAME; when empty, tokens are signed with the key in --cert-dir")
	set.StringVar(&auth.KeysURI, "service-account-jwks-uri", "", "URL of the public keys in the discovery document of service account tokens; when empty, at this server")
	set.DurationVar(&auth.MaxTokenLife, "service-account-max-token-expiration", 0, "maximum lifetime of a service account token; 0 for no limit")
	unless(set, &auth.NoTokenExtension, "service-account-extend-token-expiration", "extend tokens mounted by pods to a year, for programs that do not read them again")
}

// frontProxyFlags declares kube-apiserver's flags for front proxies: those whose users this server accepts,
// and the one that it is to aggregated API servers.
func frontProxyFlags(set *pflag.FlagSet, cfg *apiserver.Config) {
	proxy := &cfg.Authentication.FrontProxy
	set.StringVar(&proxy.ClientCAFile, "requestheader-client-ca-file", "", "PEM file of the CAs of front proxies, whose requests name their user in headers; read again when it changes; when empty, front-proxy-ca.crt of the certificate directory, and the other --requestheader flags have their usual values by default")
	set.StringSliceVar(&proxy.AllowedNames, "requestheader-allowed-names", nil, "common names of the client certificates of front proxies; when empty with --requestheader-client-ca-file, any; without that flag, front-proxy-client")
	set.StringSliceVar(&proxy.UsernameHeaders, "requestheader-username-headers", nil, "headers in which front proxies name the user, such as X-Remote-User; the first with a value counts")
	set.StringSliceVar(&proxy.UIDHeaders, "requestheader-uid-headers", nil, "headers in which front proxies name the user's UID, such as X-Remote-Uid; the first with a value counts")
	set.StringSliceVar(&proxy.GroupHeaders, "requestheader-group-headers", nil, "headers in which front proxies name the user's groups, such as X-Remote-Group")
	set.StringSliceVar(&proxy.ExtraHeaderPrefixes, "requestheader-extra-headers-prefix", nil, "prefixes of the headers in which front proxies send what else is known of the user, such as X-Remote-Extra-")
	set.StringVar(&cfg.Serving.PeerCAFile, "peer-ca-file", "", "PEM file of the CAs of other apiservers' serving certificates, read again when it changes; if set, requests for what only other apiservers serve are passed on to them, such as while the plane is upgraded")
	set.StringVar(&cfg.Serving.PeerAdvertiseIP, "peer-advertise-ip", "", "IP address where other apiservers reach this one; when empty, where pods do")
	set.StringVar(&cfg.Serving.PeerAdvertisePort, "peer-advertise-port", "", "port of --peer-advertise-ip")
	set.StringVar(&cfg.Serving.ProxyClientCertFile, "proxy-client-cert-file", "", "PEM file of the client certificate presented to aggregated API servers, of a CA of --requestheader-client-ca-file; read again when it changes; when empty, front-proxy-client.crt of the certificate directory")
	set.StringVar(&cfg.Serving.ProxyClientKeyFile, "proxy-client-key-file", "", "PEM file of the key of --proxy-client-cert-file")
}

// requestFlags declares kube-apiserver's flags for the limits on requests.
func requestFlags(set *pflag.FlagSet, cfg *apiserver.Config) {
	unbounded(set, &cfg.Limits.MaxReads, "max-requests-inflight", apiserver.DefaultMaxReads, "maximum number of reading requests in flight; 0 for no limit")
	unbounded(set, &cfg.Limits.MaxWrites, "max-mutating-requests-inflight", apiserver.DefaultMaxWrites, "maximum number of mutating requests in flight; 0 for no limit")
	unbounded(set, &cfg.Limits.MaxSessions, "max-sessions-inflight", apiserver.DefaultMaxSessions, "maximum number of logs, exec, attach, port-forward and proxy requests in flight, of which one user has at most a quarter; 0 for no limit")
	cfg.Limits.RequestTimeout = apiserver.DefaultRequestTimeout
	set.Var((*positiveDuration)(&cfg.Limits.RequestTimeout), "request-timeout", "timeout of a request, unless it is long-running like watches and logs")
	set.StringSliceVar(&cfg.Serving.AllowedOrigins, "cors-allowed-origins", nil, "regular expressions of origins whose scripts may use the API from a browser, anchored at both ends of the host like //example\\.com(:|$); when empty, none")
	set.Float64Var(&cfg.Serving.GoawayChance, "goaway-chance", 0, "fraction of HTTP/2 requests, 0 to 0.02, after which the client has to connect anew, so that a load balancer spreads clients over the apiservers; leave it 0 for a single apiserver")
}

// auditFlags declares kube-apiserver's flags for the audit log.
func auditFlags(set *pflag.FlagSet, cfg *apiserver.Config) {
	set.StringVar(&cfg.Audit.PolicyFile, "audit-policy-file", "", "file with a Policy of audit.k8s.io/v1 that selects what is written to the audit log; when empty, nothing")
	set.StringVar(&cfg.Audit.LogPath, "audit-log-path", "", "file of the audit log, - for standard output; when empty, none")
	set.IntVar(&cfg.Audit.MaxSize, "audit-log-maxsize", apiserver.DefaultAuditSize, "size in megabytes at which the audit log is rotated; 0 for never")
	set.IntVar(&cfg.Audit.MaxAge, "audit-log-maxage", apiserver.DefaultAuditAge, "number of days to keep rotated audit logs; 0 for ever")
	set.IntVar(&cfg.Audit.MaxBackups, "audit-log-maxbackup", apiserver.DefaultAuditBackups, "number of rotated audit logs to keep; 0 for all")
	set.StringVar(&cfg.Audit.Mode, "audit-log-mode", apiserver.DefaultAuditMode, "how requests wait for the audit log: blocking, batch or blocking-strict")
}

// unbounded declares a number flag whose 0 means no limit. In a Config a negative number means
// that, since 0 selects the default.
func unbounded(set *pflag.FlagSet, number *int, name string, preset int, usage string) {
	*number = preset
	set.Var((*bound)(number), name, usage)
}

type bound int

// Set parses the number.
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

// String returns the flag's value, not the stored number.
func (b *bound) String() string { return strconv.Itoa(max(int(*b), 0)) }

// Type returns pflag's name of the type.
func (b *bound) Type() string { return "int" }

// positiveDuration is a flag for a duration above 0. Other values have a meaning in a Config, which
// is for measurements.
type positiveDuration time.Duration

// Set parses the duration.
func (p *positiveDuration) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = errors.New("it must be more than 0")
	}
	*p = positiveDuration(d)
	return err
}

// String returns the duration in Go's notation.
func (p *positiveDuration) String() string { return time.Duration(*p).String() }

// Type returns pflag's name of the type.
func (p *positiveDuration) Type() string { return "duration" }

// unless declares a switch that is on by default, and stores its opposite in off.
func unless(set *pflag.FlagSet, off *bool, name, usage string) {
	set.VarPF((*opposite)(off), name, "", usage).NoOptDefVal = "true"
}

type opposite bool

// Set parses the switch.
func (o *opposite) Set(text string) error {
	on, err := strconv.ParseBool(text)
	*o = opposite(!on)
	return err
}

// String returns the switch's value, not the stored opposite.
func (o *opposite) String() string { return strconv.FormatBool(!bool(*o)) }

// Type returns pflag's name of the type.
func (o *opposite) Type() string { return "bool" }
