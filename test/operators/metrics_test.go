//go:build operators

package operators

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	custommetrics "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
)

// scaled is a Deployment whose pods use five times what they requested, and what scales it by a metric.
const scaled = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}, annotations: {simulated.garboard.io/cpu-usage: 500m}}
    spec: {containers: [{name: main, image: busybox:1.36, resources: {requests: {cpu: 100m}}}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: %[1]s}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %[1]s}
  minReplicas: 1
  maxReplicas: 3
  metrics: [%[2]s]
`

const (
	byCPU   = `{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}`
	byQueue = `{type: Pods, pods: {metric: {name: queue}, target: {type: AverageValue, averageValue: "10"}}}`
)

// scales creates a Deployment and waits until it is scaled to its maximum by a metric.
func (c *cluster) scales(t *testing.T, name, by string) {
	t.Helper()
	began := time.Now()
	c.Must(t, fmt.Sprintf(scaled, name, by), "apply", "--server-side", "-f", "-")
	c.shows(t, "3", "get", "deployment", name, "-o", "jsonpath={.status.readyReplicas}")
	t.Logf("%s was scaled after %s", name, time.Since(began).Round(time.Second))
	c.Must(t, "", "delete", "hpa,deployment", name)
}

// TestMetricsServer runs metrics-server, unmodified, against the ports of node agents. It replaces what the apiserver
// answers, for kubectl top and for autoscalers. Beside it a server of the test has metrics of pods' own.
func TestMetricsServer(t *testing.T) {
	operator := build(t, "metrics-server", "sigs.k8s.io/metrics-server", "sigs.k8s.io/metrics-server/cmd/metrics-server")
	c := start(t)
	c.Must(t, "", "apply", "-f", filepath.Join(operator.source, "manifests/base/rbac.yaml"))
	account, folder, port := c.user(t, "kube-system", "metrics-server", ""), t.TempDir(), freePort(t)
	c.aggregate(t, "kube-system", "metrics-server", "metrics.k8s.io", "v1beta1", folder, port)
	c.operate(t, operator.path, "--secure-port", port, "--tls-cert-file", filepath.Join(folder, "tls.crt"),
		"--tls-private-key-file", filepath.Join(folder, "tls.key"), "--kubeconfig", account, "--authentication-kubeconfig", account,
		"--authorization-kubeconfig", account, "--kubelet-insecure-tls", "--kubelet-preferred-address-types=InternalIP",
		"--kubelet-use-node-status-port", "--metric-resolution=15s")
	available := func(name string) {
		t.Helper()
		c.shows(t, "True", "get", "apiservice", name, "-o", "jsonpath={.status.conditions[?(@.type=='Available')].status}")
	}
	available("v1beta1.metrics.k8s.io")
	c.Must(t, fmt.Sprintf(scaled, "steady", byQueue), "apply", "--server-side", "-f", "-")
	top := func() {
		t.Helper()
		c.eventually(t, "kubectl top node", contains(c, t, "lonely", "top", "node", "--no-headers"))
		c.eventually(t, "kubectl top pod", contains(c, t, "500m", "top", "pod", "-l", "app=steady", "--no-headers"))
	}
	top()
	c.scales(t, "by-cpu", byCPU)

	queues := t.TempDir()
	c.aggregateHere(t, queues)
	available("v1beta2.custom.metrics.k8s.io")
	c.scales(t, "by-queue", byQueue)
	c.shows(t, "3", "get", "deployment", "steady", "-o", "jsonpath={.status.readyReplicas}")

	c.survives(t, func(int) {
		available("v1beta1.metrics.k8s.io")
		top()
	})
	// Without it, nobody answers in its place.
	c.operator.Stop()
	if res := c.Kubectl(t, "", "get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes"); res.Code == 0 {
		t.Errorf("metrics without their server: %s", res.Stdout)
	}
	if err := c.operator.Start(); err != nil {
		t.Fatal(err)
	}
	// Without the APIService, the apiserver answers again.
	c.Must(t, "", "delete", "apiservice", "v1beta1.metrics.k8s.io")
	c.eventually(t, "kubectl top node", contains(c, t, "lonely", "top", "node", "--no-headers"))
}

// aggregateHere serves an API of custom metrics in this process: each pod has a queue of 30.
func (c *cluster) aggregateHere(t *testing.T, folder string) {
	t.Helper()
	port := freePort(t)
	c.aggregate(t, "default", "queues", "custom.metrics.k8s.io", "v1beta2", folder, port)
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler: http.HandlerFunc(c.queues), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}},
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", ":"+port)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serving metrics: %v", err)
		}
	})
}

// queues answers an autoscaler.
func (c *cluster) queues(w http.ResponseWriter, r *http.Request) {
	var answer any = &metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: custommetrics.SchemeGroupVersion.String(),
		APIResources: []metav1.APIResource{{Name: "pods/queue", Kind: "MetricValueList", Namespaced: true, Verbs: []string{"get"}}},
	}
	if strings.HasSuffix(r.URL.Path, "/namespaces/default/pods/*/queue") {
		// The apiserver knows who asks, and has authorized the request.
		out, err := c.Command(r.Context(), "get", "pods", "-l", r.URL.Query().Get("labelSelector"), "-o", "jsonpath={.items[*].metadata.name}").Output()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		list := &custommetrics.MetricValueList{
			TypeMeta: metav1.TypeMeta{APIVersion: custommetrics.SchemeGroupVersion.String(), Kind: "MetricValueList"},
		}
		for name := range strings.FieldsSeq(string(out)) {
			value := custommetrics.MetricValue{Timestamp: metav1.Now(), Value: *resource.NewQuantity(30, resource.DecimalSI)}
			value.DescribedObject.Kind, value.DescribedObject.Namespace, value.DescribedObject.Name = "Pod", "default", name
			value.DescribedObject.APIVersion, value.Metric.Name = "v1", "queue"
			list.Items = append(list.Items, value)
		}
		answer = list
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // The caller is gone if this fails.
}
