//go:build operators

package operators

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garboard/garboard/test/e2e/plane"
)

// monitored is what users of the prometheus-operator write. The numbers change.
const monitored = `
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata: {name: main, namespace: monitoring}
spec:
  replicas: %[1]d
  serviceAccountName: default
  serviceMonitorSelector: {}
  ruleSelector: {}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: web, namespace: monitoring}
spec:
  selector: {matchLabels: {app: web}}
  endpoints: [{port: metrics, interval: 1%[1]ds}]
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: web, namespace: monitoring}
spec:
  groups:
  - name: web
    rules: [{record: "web:up", expr: "sum(up) + %[1]d"}]
`

// TestPrometheusOperator runs the prometheus-operator: a Prometheus has a StatefulSet, a Secret with its
// configuration and a ConfigMap with its rules. No controller of StatefulSets is needed for that.
func TestPrometheusOperator(t *testing.T) {
	const module = "github.com/prometheus-operator/prometheus-operator"
	operator := build(t, "prometheus-operator", module, module+"/cmd/operator")
	c := start(t)
	c.Must(t, "", "create", "namespace", "monitoring")
	c.install(t, filepath.Join(operator.source, "example/prometheus-operator-crd"),
		filepath.Join(operator.source, "example/rbac/prometheus-operator/prometheus-operator-cluster-role.yaml"))
	c.operate(t, "env", "KUBECONFIG="+c.user(t, "monitoring", "prometheus-operator", "prometheus-operator"),
		operator.path, "--web.listen-address="+plane.FreeAddress(t), "--prometheus-default-base-image=example.com/prometheus")
	reconcile := func(round int) {
		n := 1 + round%3
		c.Must(t, fmt.Sprintf(monitored, n), "apply", "--server-side", "-f", "-")
		c.shows(t, fmt.Sprint(n), "get", "statefulset", "prometheus-main", "-n", "monitoring", "-o", "jsonpath={.spec.replicas}")
		c.eventually(t, "the configuration to have the new interval", func(context.Context) error {
			return c.configured(t, fmt.Sprintf("scrape_interval: 1%ds", n))
		})
		c.eventually(t, "the rules to have the new expression", func(context.Context) error {
			out := c.Kubectl(t, "", "get", "configmap", "prometheus-main-rulefiles-0", "-n", "monitoring", "-o", "yaml").Stdout
			if !strings.Contains(out, fmt.Sprintf("sum(up) + %d", n)) {
				return errors.New(out)
			}
			return nil
		})
		generation := c.Must(t, "", "get", "prometheus", "main", "-n", "monitoring", "-o", "jsonpath={.metadata.generation}")
		c.shows(t, "True "+generation, "get", "prometheus", "main", "-n", "monitoring",
			"-o", `jsonpath={range .status.conditions[?(@.type=="Reconciled")]}{.status} {.observedGeneration}{end}`)
	}
	reconcile(0)
	c.survives(t, reconcile)
	// The scale subresource sets the number of shards, each of which has a StatefulSet.
	c.Must(t, "", "scale", "prometheus/main", "-n", "monitoring", "--replicas=2")
	c.shows(t, "2", "get", "statefulset", "prometheus-main-shard-1", "-n", "monitoring", "-o", "jsonpath={.spec.replicas}")
	c.uninstall(t, "prometheuses", "servicemonitors", "prometheusrules")
	c.shows(t, "No resources found in monitoring namespace.", "get", "statefulsets", "-n", "monitoring")
}

// configured returns an error unless Prometheus' configuration, which is compressed, contains a text.
func (c *cluster) configured(t *testing.T, want string) error {
	t.Helper()
	out := c.Kubectl(t, "", "get", "secret", "prometheus-main", "-n", "monitoring", "-o", `jsonpath={.data.prometheus\.yaml\.gz}`).Stdout
	packed, err := base64.StdEncoding.DecodeString(out)
	if err != nil {
		return err
	}
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("unpacking %q: %w", out, err)
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), want) {
		return fmt.Errorf("there is no %q in:\n%s", want, text)
	}
	return nil
}
