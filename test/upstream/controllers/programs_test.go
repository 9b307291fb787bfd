package upstream

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root is the folder of this repository.
const root = "../../.."

// programs are the files of what the planes consist of.
type programs struct {
	folder string // of this repository's programs
	theirs string // kube-controller-manager
}

// build compiles this repository's programs, and kube-controller-manager unless the cache has its version.
func build(t *testing.T) programs {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join(root, "bin", ".upstream", "plane"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	const own = "github.com/garboard/garboard/"
	// The module of this repository chooses its requirements, not this one.
	golang(t, root, "build", "-ldflags=-s -w", "-o", folder+"/",
		own+"cmd/apiserver", own+"cmd/controllers", own+"bench/apiserver/etcd", "github.com/nats-io/nats-server/v2")
	return programs{folder: folder, theirs: kubeControllerManager(t)}
}

// kubeControllerManager returns the file of kube-controller-manager, of the version in go.mod.
func kubeControllerManager(t *testing.T) string {
	t.Helper()
	const name = "kube-controller-manager"
	version := golang(t, ".", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("finding the user's cache: %v", err)
	}
	path := filepath.Join(cache, "garboard", "upstream", version, name)
	if _, err := os.Stat(path); err == nil {
		return path
	} else if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "building %s %s, which takes minutes the first time\n", name, version)
	// A build that is interrupted must not leave a program at the path.
	const stamp = "k8s.io/component-base/version."
	golang(t, ".", "build", "-o", path+".unfinished",
		fmt.Sprintf("-ldflags=-s -w -X %sgitVersion=%s -X %sgitTreeState=clean", stamp, version, stamp), "k8s.io/kubernetes/cmd/"+name)
	if err := os.Rename(path+".unfinished", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// golang runs the go tool in a folder and returns its output.
func golang(t *testing.T, folder string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Stderr = folder, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}
