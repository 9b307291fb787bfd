package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/libs/pki"
)

func TestParseOwners(t *testing.T) {
	for text, want := range map[string]map[string]pki.Owner{
		"":                    {},
		"65532":               {"": {UID: 65532, GID: 65532}},
		"1:2":                 {"": {UID: 1, GID: 2}},
		"1:2,etcd=0,nats=3:4": {"": {UID: 1, GID: 2}, "etcd": {}, "nats": {UID: 3, GID: 4}},
		"root":                nil, "-1": nil, "1:": nil, ":1": nil, "1:2:3": nil, "=1": nil, "etcd=": nil, "1,2": nil, "4294967295": nil,
	} {
		var texts []string
		if text != "" {
			texts = strings.Split(text, ",")
		}
		got, err := parseOwners(texts)
		if (err != nil) != (want == nil) || !maps.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), "--owner") {
			t.Errorf("%q: the error does not name the flag: %v", text, err)
		}
	}
}

// TestInit: the first run creates the files and the second keeps them; settings also come from the
// environment.
func TestInit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deployment")
	t.Setenv("GARBOARD_OUT", dir)
	run := func(args ...string) (out, stderr string, code int) {
		cmd := initCommand()
		var stdout, errors bytes.Buffer
		cmd.SetOut(&stdout)
		code = daemon.Execute(t.Context(), cmd, args, &errors)
		return stdout.String(), errors.String(), code
	}
	out, stderr, code := run("--apiserver-hosts", "api.example,10.0.0.7")
	if code != 0 || !strings.Contains(out, "made    ca/ca.key") || !strings.Contains(out, "made    apiserver/tls.crt") || strings.Contains(out, "kept") {
		t.Fatalf("%d %s%s", code, out, stderr)
	}
	if again, _, code := run(); code != 0 || strings.Contains(again, "made") || strings.Contains(again, "renewed") || strings.Count(again, "\n") != strings.Count(out, "\n") {
		t.Errorf("%d %s", code, again)
	}
	if _, err := os.Stat(filepath.Join(dir, "admin", "kubeconfig")); err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{
		{"--server", "apiserver:6443"}, {"--admin-server", "http://x"}, {"--etcd-hosts", "https://etcd:2379"}, {"--nats-hosts", "a b"},
		{"--apiserver-hosts", "x:6443"}, {"--service-cluster-ip-range", "10.96.0.0"}, {"--owner", "nobody"}, {"--owner", "sheep=1"}, {"--out", ""},
	} {
		if _, stderr, code := run(args...); code != 1 || !strings.Contains(stderr, args[0]) {
			t.Errorf("%v: %d %q", args, code, stderr)
		}
	}
}
