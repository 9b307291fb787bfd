package main

import (
	"cmp"
	"reflect"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/apiserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFlagsThatSayTheOpposite checks switches that are on by default, and numbers whose 0 means no
// limit.
func TestFlagsThatSayTheOpposite(t *testing.T) {
	for name, c := range map[string]struct {
		args                                  []string
		noAnonymous, noBootstrap, noExtension bool
		reads, writes, sessions               int
		timeout                               time.Duration
		fails                                 bool
	}{
		"nothing":       {reads: 400, writes: 200},
		"all off":       {args: []string{"--anonymous-auth=false", "--enable-bootstrap-token-auth=false", "--service-account-extend-token-expiration=false"}, noAnonymous: true, noBootstrap: true, noExtension: true, reads: 400, writes: 200},
		"all on":        {args: []string{"--anonymous-auth", "--enable-bootstrap-token-auth", "--service-account-extend-token-expiration=true"}, reads: 400, writes: 200},
		"other bounds":  {args: []string{"--max-requests-inflight=7", "--max-mutating-requests-inflight", "8", "--max-sessions-inflight=9"}, reads: 7, writes: 8, sessions: 9},
		"no bounds":     {args: []string{"--max-requests-inflight=0", "--max-mutating-requests-inflight=0", "--max-sessions-inflight=0"}, reads: -1, writes: -1, sessions: -1},
		"less than any": {args: []string{"--max-requests-inflight=-1"}, fails: true},
		"no number":     {args: []string{"--max-requests-inflight=x"}, fails: true},
		"less time":     {args: []string{"--request-timeout=10s"}, reads: 400, writes: 200, timeout: 10 * time.Second},
		"no time":       {args: []string{"--request-timeout=0s"}, fails: true},
		"negative time": {args: []string{"--request-timeout=-1s"}, fails: true},
		"no duration":   {args: []string{"--request-timeout=long"}, fails: true},
		"neither":       {args: []string{"--anonymous-auth=perhaps"}, fails: true},
	} {
		var cfg apiserver.Config
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		set.SetOutput(t.Output())
		apiFlags(set, &cfg)
		err := set.Parse(c.args)
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		auth := cfg.Authentication
		if auth.NoAnonymous != c.noAnonymous || auth.NoBootstrapTokens != c.noBootstrap || auth.NoTokenExtension != c.noExtension || cfg.Limits.MaxReads != c.reads || cfg.Limits.MaxWrites != c.writes ||
			cfg.Limits.MaxSessions != cmp.Or(c.sessions, 4000) || cfg.Limits.RequestTimeout != cmp.Or(c.timeout, time.Minute) {
			t.Errorf("%s: %+v, %+v", name, auth, cfg.Limits)
		}
	}
}

// TestFrontProxyFlags checks that kube-apiserver's flags for front proxies reach the configuration, and that an
// empty list differs from none.
func TestFrontProxyFlags(t *testing.T) {
	var cfg apiserver.Config
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	apiFlags(set, &cfg)
	if err := set.Parse([]string{
		"--requestheader-client-ca-file=ca", "--requestheader-allowed-names=", "--requestheader-username-headers=X-Remote-User,X-User",
		"--requestheader-uid-headers=X-Remote-Uid", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--proxy-client-cert-file=cert", "--proxy-client-key-file=key",
	}); err != nil {
		t.Fatal(err)
	}
	want := apiserver.FrontProxy{
		ClientCAFile: "ca", AllowedNames: []string{}, UsernameHeaders: []string{"X-Remote-User", "X-User"}, UIDHeaders: []string{"X-Remote-Uid"},
		GroupHeaders: []string{"X-Remote-Group"}, ExtraHeaderPrefixes: []string{"X-Remote-Extra-"},
	}
	if got := cfg.Authentication.FrontProxy; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if serving := cfg.Serving; serving.ProxyClientCertFile != "cert" || serving.ProxyClientKeyFile != "key" {
		t.Errorf("got %+v", serving)
	}
	var none apiserver.Config
	set = pflag.NewFlagSet("", pflag.ContinueOnError)
	apiFlags(set, &none)
	if err := set.Parse(nil); err != nil || none.Authentication.FrontProxy.AllowedNames != nil {
		t.Errorf("without flags: %+v, %v", none.Authentication.FrontProxy, err)
	}
}
