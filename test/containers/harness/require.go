package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// requireVariable, set to 1, says that a machine that cannot run containers fails the test rather
// than skip it.
const requireVariable = "GARBOARD_REQUIRE_CONTAINERS"

// cniFolders are where distributions put CNI's plugins.
var cniFolders = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

// Require skips the test where containers cannot be run, or fails it when
// GARBOARD_REQUIRE_CONTAINERS=1.
func Require(t testing.TB) {
	t.Helper()
	err := missing()
	switch {
	case err == nil:
	case os.Getenv(requireVariable) == "1":
		t.Fatalf("containers are required but cannot be run here: %v", err)
	default:
		t.Skipf("containers cannot be run here: %v", err)
	}
}

// missing says what the machine lacks.
func missing() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("the test is not run by root")
	}
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "runc", "iptables"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is not installed (apt-get install containerd runc containernetworking-plugins iptables)", program)
		}
	}
	if _, err := cniFolder(); err != nil {
		return err
	}
	return nil
}

func cniFolder() (string, error) {
	for _, folder := range cniFolders {
		if _, err := os.Stat(filepath.Join(folder, "bridge")); err == nil {
			return folder, nil
		}
	}
	return "", fmt.Errorf("CNI's plugins are in none of %v (apt-get install containernetworking-plugins)", cniFolders)
}
