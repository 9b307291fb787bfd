package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/garboard/garboard/test/e2e/plane"
)

// etcdutl builds the program that restores etcd, at the release that this module uses.
func etcdutl(t *testing.T) string {
	t.Helper()
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatalf("finding the module: %v", err)
	}
	program := filepath.Join(t.TempDir(), "etcdutl")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "go.etcd.io/etcd/etcdutl/v3")
	build.Dir = filepath.Join(strings.TrimSpace(string(module)), "tools", "etcdutl")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building etcdutl: %v\n%s", err, output)
	}
	return program
}

// TestRestore saves a snapshot, makes more changes, and restores it as docs/operate/restore.md
// describes. The contents of the snapshot are back, later changes are gone, and the plane keeps
// working.
func TestRestore(t *testing.T) {
	utl := etcdutl(t)
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated")
	expect(t, p, "", `created`, "create", "configmap", "kept", "--from-literal=a=before")
	expect(t, p, "", `created`, "create", "configmap", "doomed", "--from-literal=a=1")
	expect(t, p, "", `created`, "create", "-f", "testdata/nginx.yaml")
	expect(t, p, "", `successfully rolled out`, "rollout", "status", "deployment/nginx-deployment")

	file := filepath.Join(t.TempDir(), "snapshot.db")
	res := p.Garboard(t, "snapshot", "save", file)
	if res.Code != 0 || !strings.Contains(res.Stdout, "its hash is right") {
		t.Fatalf("snapshot save: exit code %d\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
	// Our status of the snapshot must be that of etcd's own program.
	var ours, theirs struct {
		Revision  int64
		TotalKeys int
		TotalKey  int // its name in the output of etcdutl
	}
	if err := json.Unmarshal([]byte(p.Garboard(t, "snapshot", "status", file, "-o", "json").Stdout), &ours); err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), utl, "snapshot", "status", file, "-w", "json").Output()
	if err != nil {
		t.Fatalf("etcdutl snapshot status: %v", err)
	}
	if err := json.Unmarshal(output, &theirs); err != nil || ours.Revision != theirs.Revision || ours.TotalKeys != theirs.TotalKey {
		t.Errorf("got %+v, and etcdutl printed %s (%v)", ours, output, err)
	}

	expect(t, p, "", `created`, "create", "configmap", "late", "--from-literal=a=1")
	expect(t, p, "", `deleted`, "delete", "configmap", "doomed")
	expect(t, p, "", `patched`, "patch", "configmap", "kept", "-p", `{"data":{"a":"after"}}`)
	expect(t, p, "", `scaled`, "scale", "deployment/nginx-deployment", "--replicas=3")
	if code := p.Interrupt(t); code != 0 {
		t.Fatalf("the plane ended with %d", code)
	}

	data := filepath.Join(p.DataDir, "etcd")
	if err := os.Rename(data, data+"-old"); err != nil {
		t.Fatal(err)
	}
	peer := "unix://" + filepath.Join(p.DataDir, "sockets", "peer.sock")
	restore := exec.CommandContext(t.Context(), utl, "snapshot", "restore", file, "--bump-revision", "1000000000", "--mark-compacted",
		"--data-dir", data, "--name", "garboard", "--initial-cluster", "garboard="+peer, "--initial-advertise-peer-urls", peer)
	if output, err := restore.CombinedOutput(); err != nil {
		t.Fatalf("etcdutl snapshot restore: %v\n%s", err, output)
	}
	p.Restart(t)

	expect(t, p, "", `^before$`, "get", "configmap", "kept", "-o", "jsonpath={.data.a}")
	expect(t, p, "", `^1$`, "get", "configmap", "doomed", "-o", "jsonpath={.data.a}")
	if res := p.Kubectl(t, "", "get", "configmap", "late"); res.Code != 1 || !strings.Contains(res.Stderr, "not found") {
		t.Errorf("the change after the snapshot: exit code %d\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
	// The controllers continue from the restored state, which wants one replica.
	expect(t, p, "", `successfully rolled out`, "rollout", "status", "deployment/nginx-deployment")
	expectSoon(t, p, `^1$`, "get", "deployment", "nginx-deployment", "-o", "jsonpath={.status.readyReplicas}")
	expect(t, p, "", `created`, "create", "configmap", "new", "--from-literal=a=1")
	version := p.Must(t, "", "get", "configmap", "new", "-o", "jsonpath={.metadata.resourceVersion}")
	if n, err := strconv.ParseInt(version, 10, 64); err != nil || n < 1_000_000_000 {
		t.Errorf("the revision is %s (%v)", version, err)
	}
	plane.Eventually(t, "a healthy plane", func(context.Context) error {
		// The doctor warns that pods cannot reach a loopback address.
		if res := p.Garboard(t, "doctor"); !strings.Contains(res.Stdout, " 1 WARN, 0 FAIL\n") || !strings.Contains(res.Stdout, "WARN  endpoints") {
			return errors.New(res.Stdout)
		}
		return nil
	})
}
