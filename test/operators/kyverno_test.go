//go:build operators

package operators

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garboard/garboard/test/e2e/plane"
)

// owned is a policy that refuses pods without a label, whose name changes, and fills in another one.
const owned = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: owned}
spec:
  background: false
  rules:
  - name: owner
    match: {any: [{resources: {kinds: [Pod], namespaces: [default]}}]}
    validate:
      failureAction: Enforce
      message: a pod has an owner
      pattern: {metadata: {labels: {"owner-%[1]d": "?*"}}}
  - name: team
    match: {any: [{resources: {kinds: [Pod], namespaces: [default]}}]}
    mutate:
      patchStrategicMerge: {metadata: {labels: {"team-%[1]d": web}}}
`

// TestKyverno runs the admission controller of Kyverno, whose webhooks the apiserver calls by URL: a
// policy refuses and changes pods.
func TestKyverno(t *testing.T) {
	const module = "github.com/kyverno/kyverno"
	operator := build(t, "kyverno", module, module+"/cmd/kyverno")
	c := start(t)
	c.install(t, withoutDeployments(t, filepath.Join(operator.source, "config/install-latest-testing.yaml")))
	address := plane.FreeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	c.operate(t, "env", "KYVERNO_NAMESPACE=kyverno", "KYVERNO_SERVICEACCOUNT_NAME=kyverno-admission-controller",
		"KYVERNO_ROLE_NAME=kyverno:admission-controller", "KYVERNO_DEPLOYMENT=kyverno-admission-controller",
		"KYVERNO_POD_NAME=kyverno-admission-controller-0", "KYVERNO_SVC=kyverno-svc", "INIT_CONFIG=kyverno", "METRICS_CONFIG=kyverno-metrics",
		"TUF_ROOT="+t.TempDir(), operator.path,
		"--kubeconfig="+c.user(t, "kyverno", "kyverno-admission-controller", ""), "--serverIP="+address,
		"--webhookServerHost=127.0.0.1", "--webhookServerPort="+port,
		"--caSecretName=kyverno-svc.kyverno.svc.kyverno-tls-ca", "--tlsSecretName=kyverno-svc.kyverno.svc.kyverno-tls-pair",
		"--backgroundServiceAccountName=system:serviceaccount:kyverno:kyverno-background-controller",
		"--reportsServiceAccountName=system:serviceaccount:kyverno:kyverno-reports-controller",
		"--disableMetrics=true", "--controllerRuntimeMetricsAddress=0", "--admissionReports=false")
	reconcile := func(round int) {
		// Kyverno's own webhook checks a policy.
		c.eventually(t, "the policy to be accepted", func(context.Context) error {
			if res := c.Kubectl(t, fmt.Sprintf(owned, round), "apply", "--server-side", "-f", "-"); res.Code != 0 {
				return errors.New(res.Stderr)
			}
			return nil
		})
		c.shows(t, "True", "get", "clusterpolicy", "owned", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		c.eventually(t, "the policy to refuse a pod", func(context.Context) error {
			res := c.Kubectl(t, "", "run", "nobodys", "--image=nginx", "--dry-run=server")
			if !strings.Contains(res.Stderr, `admission webhook "validate.kyverno.svc-fail" denied the request`) ||
				!strings.Contains(res.Stderr, "a pod has an owner") || !strings.Contains(res.Stderr, fmt.Sprintf("owner-%d", round)) {
				return fmt.Errorf("exit code %d: %s%s", res.Code, res.Stdout, res.Stderr)
			}
			return nil
		})
		c.eventually(t, "the policy to accept and change a pod", func(context.Context) error {
			res := c.Kubectl(t, "", "run", "somebodys", "--image=nginx", fmt.Sprintf("--labels=owner-%d=me", round), "--dry-run=server",
				"-o", fmt.Sprintf("jsonpath={.metadata.labels.team-%d}", round))
			if res.Stdout != "web" {
				return fmt.Errorf("exit code %d: %s%s", res.Code, res.Stdout, res.Stderr)
			}
			return nil
		})
	}
	reconcile(0)
	c.survives(t, reconcile)
	c.Must(t, "", "delete", "clusterpolicy", "owned")
	c.eventually(t, "pods to be accepted again", func(context.Context) error {
		if res := c.Kubectl(t, "", "run", "nobodys", "--image=nginx", "--dry-run=server"); res.Code != 0 {
			return errors.New(res.Stderr)
		}
		return nil
	})
	c.operator.Stop()
	// As Kyverno's own instructions tell, its webhooks are removed by hand.
	c.Must(t, "", "delete", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "-l", "webhook.kyverno.io/managed-by=kyverno")
	c.uninstall(t, "clusterpolicies")
}

// withoutDeployments writes a manifest without the Deployments in it, and returns the path.
func withoutDeployments(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for document := range strings.SplitSeq(string(data), "\n---") {
		if !strings.Contains(document, "\nkind: Deployment\n") {
			kept = append(kept, document)
		}
	}
	path = filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(kept, "\n---")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
