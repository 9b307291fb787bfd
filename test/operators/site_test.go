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
)

const site = `{apiVersion: web.example.com/v1, kind: Site, metadata: {name: %s, namespace: default}, spec: {hosts: [%s], replicas: %d}}`

// TestSiteOperator runs our own operator over the bus. Its webhooks are reached by a Service.
func TestSiteOperator(t *testing.T) {
	c := start(t)
	c.Compile(t, own+"test/operators/siteoperator")
	registry := t.TempDir()
	c.startSites(t, registry)
	reconcile := func(round int) {
		replicas := 1 + round%2
		// The webhooks must be there before a Site can be written.
		c.eventually(t, "a site to be accepted", func(context.Context) error {
			if res := c.Kubectl(t, fmt.Sprintf(site, "shop", "shop.example.com", replicas), "apply", "--server-side", "-f", "-"); res.Code != 0 {
				return errors.New(res.Stderr)
			}
			return nil
		})
		c.shows(t, fmt.Sprint(replicas), "get", "deployment", "shop", "-o", "jsonpath={.status.readyReplicas}")
		generation := c.Must(t, "", "get", "sites.v1.web.example.com", "shop", "-o", "jsonpath={.metadata.generation}")
		c.shows(t, fmt.Sprintf("%d True %s", replicas, generation), "get", "site", "shop",
			"-o", `jsonpath={.status.replicas} {.status.conditions[0].status} {.status.observedGeneration}`)
		c.shows(t, "shop.example.com", "get", "sites.v1beta1.web.example.com", "shop", "-o", "jsonpath={.spec.host}")
	}
	reconcile(0)
	c.siteRules(t)
	c.survives(t, reconcile)
	c.siteRules(t)
	c.overBus(t)

	// The operator's finalizer keeps a site until its hosts are registered no more.
	if data, err := os.ReadFile(filepath.Join(registry, "default_shop")); err != nil || string(data) != "shop.example.com" {
		t.Errorf("the registry has %q: %v", data, err)
	}
	c.uninstall(t, "sites")
	if _, err := os.Stat(filepath.Join(registry, "default_shop")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the hosts are still registered: %v", err)
	}
	c.shows(t, "No resources found in default namespace.", "get", "deployments,replicasets,pods")
}

// startSites installs and starts the operator.
func (c *cluster) startSites(t *testing.T, registry string) {
	t.Helper()
	port := freePort(t)
	certs := t.TempDir()
	authority := serving(t, certs, "siteoperator.default.svc")
	var files []string
	for _, name := range []string{"operator.yaml", "crd.yaml", "webhooks.yaml"} {
		data, err := os.ReadFile(filepath.Join("siteoperator", "config", name))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(c.Dir, name)
		text := strings.ReplaceAll(string(data), "${CA}", base64.StdEncoding.EncodeToString(authority))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	c.install(t, files...)
	c.endpoint(t, "default", "siteoperator", "webhooks", port)
	c.operate(t, filepath.Join(c.Dir, "siteoperator"), "-kubeconfig", c.user(t, "default", "siteoperator", ""),
		"-nats-servers", "nats://"+c.NATS, "-registry", registry, "-cert-dir", certs, "-port", port)
}

// siteRules checks what the definition and the webhooks accept, refuse and fill in.
func (c *cluster) siteRules(t *testing.T) {
	t.Helper()
	accepted := func(name, spec, version string) string {
		return fmt.Sprintf(`{apiVersion: web.example.com/%s, kind: Site, metadata: {name: %s, namespace: default}, spec: %s}`, version, name, spec)
	}
	for _, one := range []struct{ object, wantErr string }{
		{accepted("big", `{hosts: [big.example.com], replicas: 3}`, "v1"), "a free site has at most 2 replicas"},
		{accepted("big", `{host: big.example.com, replicas: 3}`, "v1beta1"), "a free site has at most 2 replicas"},
		{accepted("none", `{hosts: [], replicas: 1}`, "v1"), "should have at least 1 items"},
		{accepted("none", `{hosts: [a.example.com], replikas: 1}`, "v1"), `unknown field "spec.replikas"`},
		{accepted(strings.Repeat("n", 31), `{hosts: [a.example.com]}`, "v1"), "is longer than 30 characters"},
		{accepted("second", `{hosts: [shop.example.com]}`, "v1"), `admission webhook "hosts.web.example.com" denied the request: site default/shop has the host shop.example.com`},
		{accepted("second", `{host: "a.example.com,shop.example.com"}`, "v1beta1"), "site default/shop has the host shop.example.com"},
	} {
		if res := c.Kubectl(t, one.object, "create", "-f", "-"); res.Code == 0 || !strings.Contains(res.Stderr, one.wantErr) {
			t.Errorf("creating %s: exit code %d, %s\nwant %s", one.object, res.Code, res.Stderr, one.wantErr)
		}
	}
	res := c.Kubectl(t, accepted("old", `{host: "a.example.com,b.example.com", paid: true, replicas: 3}`, "v1beta1"), "create", "-f", "-")
	if res.Code != 0 || !strings.Contains(res.Stderr, "web.example.com/v1beta1 Site is deprecated; use web.example.com/v1 Site") {
		t.Errorf("creating an old site: exit code %d, %s", res.Code, res.Stderr)
	}
	c.shows(t, `["a.example.com","b.example.com"] Paid Welcome to a.example.com`, "get", "sites.v1.web.example.com", "old",
		"-o", "jsonpath={.spec.hosts} {.spec.tier} {.spec.page}")
	if out := c.Must(t, "", "get", "sites.v1.web.example.com", "old", "-o", "yaml"); !strings.Contains(out, requester) {
		t.Errorf("the webhook has not named the requester:\n%s", out)
	}
	c.shows(t, "site.web.example.com/old", "get", "sites.v1.web.example.com", "--field-selector=spec.tier=Paid", "-o", "name")
	res = c.Kubectl(t, "", "patch", "site", "old", "--type=merge", "-p", `{"spec":{"tier":"Free","replicas":1}}`)
	if res.Code == 0 || !strings.Contains(res.Stderr, "a paid site stays paid") {
		t.Errorf("making a paid site free: exit code %d, %s", res.Code, res.Stderr)
	}
	c.Must(t, "", "scale", "site/old", "--replicas=4")
	c.shows(t, "4", "get", "deployment", "old", "-o", "jsonpath={.status.readyReplicas}")
	c.Must(t, "", "annotate", "site", "old", "web.example.com/keep=yes")
	if res := c.Kubectl(t, "", "delete", "site", "old"); !strings.Contains(res.Stderr, "the site is to be kept") {
		t.Errorf("deleting a site that is to be kept: exit code %d, %s", res.Code, res.Stderr)
	}
	c.Must(t, "", "annotate", "site", "old", "web.example.com/keep-")
	c.Must(t, "", "delete", "site", "old", "--timeout=2m")
}

// requester is what the operator's webhook notes of the user in these stories.
const requester = "web.example.com/requested-by: kubernetes-admin"

// overBus checks that the operator is fed over the bus: the apiserver has no watch of its resources.
func (c *cluster) overBus(t *testing.T) {
	t.Helper()
	for _, resource := range []string{"sites", "deployments", "configmaps"} {
		c.eventually(t, "no watch of "+resource+" over HTTP", func(context.Context) error {
			out := c.Must(t, "", "get", "--raw", "/metrics")
			for line := range strings.Lines(out) {
				if strings.HasPrefix(line, "apiserver_longrunning_requests{") && strings.Contains(line, `resource="`+resource+`"`) &&
					!strings.HasSuffix(line, " 0\n") {
					return errors.New(line)
				}
			}
			return nil
		})
	}
}
