package config

import (
	"bytes"
	"log/slog"
	"reflect"
	"strings"
	"testing"
)

// TestFrontProxyDefaults checks that the usual lists belong to the certificate directory's authority: with
// another one only what is set counts, as in Kubernetes.
func TestFrontProxyDefaults(t *testing.T) {
	usual := FrontProxy{
		AllowedNames: []string{"front-proxy-client"}, UsernameHeaders: []string{"X-Remote-User"}, UIDHeaders: []string{"X-Remote-Uid"},
		GroupHeaders: []string{"X-Remote-Group"}, ExtraHeaderPrefixes: []string{"X-Remote-Extra-"},
	}
	some := usual
	some.AllowedNames, some.UsernameHeaders = []string{}, []string{"x-remote-user", "X-User"}
	other := FrontProxy{ClientCAFile: "/ca.crt", UsernameHeaders: []string{"X-Remote-User"}}
	for name, c := range map[string]struct{ given, want FrontProxy }{
		"nothing":           {FrontProxy{}, usual},
		"some lists":        {FrontProxy{AllowedNames: []string{}, UsernameHeaders: some.UsernameHeaders}, some},
		"another authority": {other, other},
	} {
		cfg := good()
		cfg.Authentication.FrontProxy = c.given
		if err := cfg.Complete(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := cfg.Authentication.FrontProxy; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// TestFrontProxyWarnings checks that lists without the header that aggregated API servers get are warned of.
func TestFrontProxyWarnings(t *testing.T) {
	for list, set := range map[string]func(*FrontProxy){
		"--requestheader-username-headers is set without specifying the standard X-Remote-User header - API aggregation will not work": func(f *FrontProxy) { f.UsernameHeaders = []string{"X-User"} },
		"--requestheader-group-headers is set without specifying the standard X-Remote-Group header":                                   func(f *FrontProxy) { f.GroupHeaders = []string{"X-Group"} },
		"--requestheader-extra-headers-prefix is set without specifying the standard X-Remote-Extra- header":                           func(f *FrontProxy) { f.ExtraHeaderPrefixes = []string{"X-Extra-"} },
		"": func(f *FrontProxy) { f.UsernameHeaders = []string{"x-remote-USER"} },
	} {
		var log bytes.Buffer
		cfg := good()
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		set(&cfg.Authentication.FrontProxy)
		if err := cfg.Complete(); err != nil {
			t.Error(err)
		}
		if text := log.String(); !strings.Contains(text, list) || (list == "") != (text == "") {
			t.Errorf("want %q, got %s", list, text)
		}
	}
}
