//go:build operators

package operators

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	chaos "github.com/garboard/garboard/test/chaos/plane"
	"github.com/garboard/garboard/test/e2e/plane"
	"github.com/garboard/garboard/test/services"
)

// install applies files, on the server's side, and waits until the definitions among them are
// established.
func (c *cluster) install(t *testing.T, files ...string) {
	t.Helper()
	for _, file := range files {
		c.Must(t, "", "apply", "--server-side", "-f", file)
	}
	c.Must(t, "", "wait", "--for=condition=Established", "crd", "--all", "--timeout=2m")
}

// user creates a service account and returns the path of its kubeconfig. A role of the cluster is bound
// to the account unless its name is empty.
func (c *cluster) user(t *testing.T, namespace, name, role string) string {
	t.Helper()
	if res := c.Kubectl(t, "", "create", "serviceaccount", name, "-n", namespace); res.Code != 0 && !strings.Contains(res.Stderr, "exists") {
		t.Fatal(res.Stderr)
	}
	if role != "" {
		c.Must(t, "", "create", "clusterrolebinding", "story-"+name, "--clusterrole="+role, "--serviceaccount="+namespace+":"+name)
	}
	config, err := clientcmd.LoadFromFile(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	ca := c.Dir + "/ca.crt"
	for _, one := range config.Clusters {
		if err := os.WriteFile(ca, one.CertificateAuthorityData, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	token := strings.TrimSpace(c.Must(t, "", "create", "token", name, "-n", namespace, "--duration=12h"))
	return c.KubeconfigOf(t, name, ca, token)
}

// operate starts the operator. As a kubelet would, the waits of the story start it again whenever it
// has ended by itself: many operators do when they have lost their Lease.
func (c *cluster) operate(t *testing.T, command ...string) {
	t.Helper()
	c.operator = chaos.NewProcess("operator", c.Dir, command, nil)
	if err := c.operator.Start(); err != nil {
		t.Fatal(err)
	}
}

// eventually polls is until it returns nil, while the operator runs.
func (c *cluster) eventually(t *testing.T, what string, is func(ctx context.Context) error) {
	t.Helper()
	restarts := 0
	plane.Eventually(t, what, func(ctx context.Context) error {
		if err := c.operator.Died(); err != nil {
			c.ends++
			if restarts++; restarts > 20 {
				t.Fatalf("the operator does not stay: %v\n%s", err, c.Log("operator"))
			}
			c.operator.Stop()
			if err := c.operator.Start(); err != nil {
				t.Fatal(err)
			}
		}
		return is(ctx)
	})
}

// shows waits until kubectl prints a text: to its standard output or, if that stays empty, to the other.
func (c *cluster) shows(t *testing.T, want string, args ...string) {
	t.Helper()
	c.eventually(t, fmt.Sprintf("kubectl %s to print %q", strings.Join(args, " "), want), func(context.Context) error {
		res := c.Kubectl(t, "", args...)
		got := strings.TrimSpace(res.Stdout)
		if got == "" {
			got = strings.TrimSpace(res.Stderr)
		}
		if got != want {
			return fmt.Errorf("exit code %d, got %q and %q", res.Code, res.Stdout, res.Stderr)
		}
		return nil
	})
}

// contains returns a check that kubectl prints a text.
func contains(c *cluster, t *testing.T, text string, args ...string) func(context.Context) error {
	return func(context.Context) error {
		if res := c.Kubectl(t, "", args...); res.Code != 0 || !strings.Contains(res.Stdout, text) {
			return fmt.Errorf("exit code %d, no %q in what it printed: %.2000s%s", res.Code, text, res.Stdout, res.Stderr)
		}
		return nil
	}
}

// lacks returns a check that kubectl prints something without a text.
func lacks(c *cluster, t *testing.T, text string, args ...string) func(context.Context) error {
	return func(context.Context) error {
		if res := c.Kubectl(t, "", args...); res.Code != 0 || strings.Contains(res.Stdout, text) {
			return fmt.Errorf("exit code %d, and %q in what it printed: %.2000s%s", res.Code, text, res.Stdout, res.Stderr)
		}
		return nil
	}
}

// file writes a file for kubectl, and returns its path.
func (c *cluster) file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "object.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// survives restarts every service of the plane, and at last the operator. After each restart it calls
// reconcile, which changes something and waits until the operator has reacted.
func (c *cluster) survives(t *testing.T, reconcile func(round int)) {
	t.Helper()
	for i, service := range services.Names() {
		began := time.Now()
		c.Restart(t, service)
		reconcile(i + 1)
		t.Logf("%s restarted, and the operator has reconciled %s later", service, time.Since(began).Round(100*time.Millisecond))
	}
	c.operator.Stop()
	if err := c.operator.Start(); err != nil {
		t.Fatal(err)
	}
	reconcile(len(services.Names()) + 1)
	t.Logf("the operator restarted; it had ended by itself %d times before", c.ends)
}

// uninstall deletes all objects of these resources, and then all definitions, which must go.
func (c *cluster) uninstall(t *testing.T, resources ...string) {
	t.Helper()
	for _, resource := range resources {
		c.Must(t, "", "delete", resource, "--all", "--all-namespaces", "--timeout=2m")
	}
	c.Must(t, "", "delete", "crd", "--all", "--timeout=2m")
	c.shows(t, "No resources found", "get", "crd")
	for _, resource := range resources {
		// Which text it is depends on what kubectl remembers.
		if res := c.Kubectl(t, "", "get", resource); res.Code == 0 ||
			!strings.Contains(res.Stderr, "the server doesn't have a resource type") && !strings.Contains(res.Stderr, "NotFound") {
			t.Errorf("%s is still served: %s%s", resource, res.Stdout, res.Stderr)
		}
	}
}
