//go:build operators

package operators

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garboard/garboard/test/e2e/plane"
)

// labelled is a template, of which Gatekeeper makes a definition.
const labelled = `
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: requiredlabel}
spec:
  crd:
    spec:
      names: {kind: RequiredLabel}
      validation:
        openAPIV3Schema: {type: object, properties: {label: {type: string}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package requiredlabel
      violation[{"msg": msg}] {
        not input.review.object.metadata.labels[input.parameters.label]
        msg := sprintf("a pod has the label %v", [input.parameters.label])
      }
`

// required is an object of the kind that Gatekeeper defines. The label changes.
const required = `
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: RequiredLabel
metadata: {name: owner}
spec:
  match: {kinds: [{apiGroups: [""], kinds: [Pod]}], namespaces: [default]}
  parameters: {label: owner-%d}
`

// TestGatekeeper runs Gatekeeper, which defines kinds of its own while it runs: a template has a definition,
// and the objects of that kind refuse pods. Its webhooks are reached by a Service.
func TestGatekeeper(t *testing.T) {
	const module = "github.com/open-policy-agent/gatekeeper/v3"
	operator := build(t, "gatekeeper", module, module)
	c := start(t)
	certs := t.TempDir()
	authority := base64.StdEncoding.EncodeToString(serving(t, certs, "gatekeeper-webhook-service.gatekeeper-system.svc"))
	manifest := withoutDeployments(t, filepath.Join(operator.source, "deploy/gatekeeper.yaml"))
	data, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(data), "  clientConfig:\n", "  clientConfig:\n    caBundle: "+authority+"\n")
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c.install(t, manifest)
	port := freePort(t)
	c.endpoint(t, "gatekeeper-system", "gatekeeper-webhook-service", "https-webhook-server", port)
	c.operate(t, "env", "POD_NAME=story", "POD_NAMESPACE=gatekeeper-system", "NAMESPACE=gatekeeper-system", "CONTAINER_NAME=manager",
		operator.path, "--kubeconfig="+c.user(t, "gatekeeper-system", "gatekeeper-admin", ""), "--port="+port, "--cert-dir="+certs,
		"--disable-cert-rotation", "--debug-use-fake-pod", "--shutdown-delay=0", "--logtostderr", "--exempt-namespace=gatekeeper-system",
		"--health-addr="+plane.FreeAddress(t), "--prometheus-port="+freePort(t),
		"--operation=webhook", "--operation=audit", "--operation=status", "--operation=generate")
	c.Must(t, labelled, "apply", "--server-side", "-f", "-")
	reconcile := func(round int) {
		c.eventually(t, "the constraint to be accepted", func(context.Context) error {
			if res := c.Kubectl(t, fmt.Sprintf(required, round), "apply", "--server-side", "-f", "-"); res.Code != 0 {
				return errors.New(res.Stderr)
			}
			return nil
		})
		c.eventually(t, "the constraint to refuse a pod", func(context.Context) error {
			res := c.Kubectl(t, "", "run", "nobodys", "--image=nginx", "--dry-run=server")
			want := fmt.Sprintf(`admission webhook "validation.gatekeeper.sh" denied the request: [owner] a pod has the label owner-%d`, round)
			if !strings.Contains(res.Stderr, want) {
				return fmt.Errorf("exit code %d: %s%s", res.Code, res.Stdout, res.Stderr)
			}
			return nil
		})
		c.Must(t, "", "run", "somebodys", "--image=nginx", fmt.Sprintf("--labels=owner-%d=me", round), "--dry-run=server")
	}
	reconcile(0)
	c.survives(t, reconcile)
	// The definition goes with the template, and with it the objects.
	c.Must(t, "", "delete", "constrainttemplate", "requiredlabel", "--timeout=2m")
	c.eventually(t, "the kind to go", func(context.Context) error {
		res := c.Kubectl(t, "", "get", "crd", "requiredlabel.constraints.gatekeeper.sh")
		if !strings.Contains(res.Stderr, "NotFound") {
			return errors.New(res.Stdout)
		}
		return nil
	})
	c.eventually(t, "pods to be accepted again", func(context.Context) error {
		if res := c.Kubectl(t, "", "run", "nobodys", "--image=nginx", "--dry-run=server"); res.Code != 0 {
			return errors.New(res.Stderr)
		}
		return nil
	})
	c.operator.Stop()
	c.uninstall(t, "constrainttemplates")
}
