package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// requireVariable says what tests with containers do. If it is 1 they fail, instead of being skipped,
// on machines that cannot run containers; if it is 0 they are skipped everywhere.
const requireVariable = "GARBOARD_REQUIRE_CONTAINERS"

// cniFolders are the folders in which distributions install the CNI plugins.
var cniFolders = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

// Require skips the test where containers cannot run, or fails it if GARBOARD_REQUIRE_CONTAINERS=1.
// It skips the test on every machine if GARBOARD_REQUIRE_CONTAINERS=0.
func Require(t testing.TB) {
	t.Helper()
	if os.Getenv(requireVariable) == "0" {
		t.Skipf("tests with containers are switched off by %s=0", requireVariable)
	}
	err := missing()
	switch {
	case err == nil:
	case os.Getenv(requireVariable) == "1":
		t.Fatalf("containers are required but cannot be run here: %v", err)
	default:
		t.Skipf("containers cannot be run here: %v", err)
	}
}

// missing returns an error that names what the machine lacks.
func missing() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("the test does not run as root")
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
	return "", fmt.Errorf("the CNI plugins are in none of %v (apt-get install containernetworking-plugins)", cniFolders)
}
