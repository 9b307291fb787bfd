package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/garboard/garboard/test/e2e/plane"
)

// story is what a user does with workloads of one kind. Each has its own namespaces.
type story struct {
	name string
	run  func(t *testing.T, p *plane.Plane)
}

// stories runs stories in parallel, since most of their time is spent waiting, and waits for their ends.
func stories(t *testing.T, p *plane.Plane, all []story) {
	t.Run("stories", func(t *testing.T) {
		for _, each := range all {
			t.Run(each.name, func(t *testing.T) {
				t.Parallel()
				begin := time.Now()
				each.run(t, p)
				t.Logf("took %v", time.Since(begin).Round(time.Second))
			})
		}
	})
}

// TestStories follows workloads on one plane with three simulated nodes, as their users see them.
func TestStories(t *testing.T) {
	for _, name := range []string{"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "KUBECACHEDIR"} {
		t.Setenv(name, t.TempDir())
	}
	metrics := serveMetrics(t)
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated", "--nodes", "3",
		"--horizontal-pod-autoscaler-metrics-server", metrics.URL, "--horizontal-pod-autoscaler-sync-period", "1s")
	metrics.measure(t, p)
	stories(t, p, []story{
		{"a drain waits for a budget", drainWaits},
		{"an autoscaler follows the load", func(t *testing.T, p *plane.Plane) { autoscalerFollows(t, p, metrics) }},
		{"a namespace of 1,000 objects goes", namespaceGoes},
		{"Helm waits for workloads", helmWaits},
	})
}

// drainWaits drains a node whose pods may not go until another pod is ready.
func drainWaits(t *testing.T, p *plane.Plane) {
	in := func(args ...string) []string { return append(args, "-n", "drained") }
	expect(t, p, "", `created`, "create", "namespace", "drained")
	expect(t, p, web("web", "guarded", "spec: {containers", "spec: {terminationGracePeriodSeconds: 1, containers"), `created`, in("create", "-f", "-")...)
	expect(t, p, "", `successfully rolled out\n$`, in("rollout", "status", "deployment/guarded")...)
	expect(t, p, "", `created`, in("create", "poddisruptionbudget", "guard", "--selector=app=guarded", "--min-available=2")...)
	expectSoon(t, p, `^NAME +MIN AVAILABLE +MAX UNAVAILABLE +ALLOWED DISRUPTIONS +AGE\nguard +2 +N/A +0 +\S+\n$`, in("get", "pdb")...)
	node := p.Must(t, "", in("get", "pods", "-o", "jsonpath={.items[0].spec.nodeName}")...)

	healthy, endWatch := watched(t, p, in("get", "pdb", "guard", "-w", "-o", `jsonpath={.status.currentHealthy}{"\n"}`)...)
	said := filepath.Join(t.TempDir(), "said")
	output, err := os.Create(said)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = output.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), plane.Patience)
	defer cancel()
	drain := p.Command(ctx, "drain", node, "--pod-selector=app=guarded", "--timeout=170s")
	drain.Stdout, drain.Stderr = output, output
	if err := drain.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- drain.Wait() }()
	const refused = `(will retry after 5s): Cannot evict pod as it would violate the pod's disruption budget.`
	plane.Eventually(t, "kubectl drain to wait", func(context.Context) error {
		text, err := os.ReadFile(said)
		if err == nil && !strings.Contains(string(text), refused) {
			err = fmt.Errorf("it has printed %q", text)
		}
		return err
	})
	select {
	case err := <-ended:
		t.Fatalf("kubectl drain ended: %v", err)
	default:
	}
	expect(t, p, "", `scaled`, in("scale", "deployment/guarded", "--replicas=3")...)
	if err := <-ended; err != nil {
		t.Errorf("kubectl drain: %v", err)
	}
	text, err := os.ReadFile(said)
	if err != nil || !strings.Contains(string(text), " evicted\n") || !strings.HasSuffix(string(text), "node/"+node+" drained\n") {
		t.Errorf("kubectl drain printed %q, %v", text, err)
	}
	expect(t, p, "", `successfully rolled out\n$`, in("rollout", "status", "deployment/guarded")...)
	if nodes := p.Must(t, "", in("get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}")...); strings.Contains(nodes, node) {
		t.Errorf("pods are on %s, and %s was drained", nodes, node)
	}
	endWatch()
	for line := range strings.Lines(healthy()) {
		if n, err := strconv.Atoi(strings.TrimSpace(line)); err != nil || n < 2 {
			t.Errorf("during the drain %q pods were healthy, want at least 2", line)
		}
	}
	expect(t, p, "", `uncordoned`, "uncordon", node)
	expect(t, p, "", `deleted`, "delete", "namespace", "drained", "--wait", "--timeout=180s")
}

// watched starts a kubectl that watches. It returns what it has printed once end has ended it.
func watched(t *testing.T, p *plane.Plane, args ...string) (printed func() string, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var output strings.Builder
	cmd := p.Command(ctx, args...)
	cmd.Stdout = &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	end = func() {
		cancel()
		<-ended
	}
	t.Cleanup(end)
	return func() string {
		<-ended
		return output.String()
	}, end
}

// metricsServer serves metrics.k8s.io. The pods of a namespace share a load, in thousandths of a CPU.
type metricsServer struct {
	*httptest.Server
	load    atomic.Int64
	clients atomic.Pointer[kubernetes.Clientset]
}

func serveMetrics(t *testing.T) *metricsServer {
	t.Helper()
	m := &metricsServer{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods", m.pods)
	m.Server = httptest.NewServer(mux)
	t.Cleanup(m.Close)
	return m
}

// measure makes the server report on the pods of a plane.
func (m *metricsServer) measure(t *testing.T, p *plane.Plane) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	m.clients.Store(clients)
}

func (m *metricsServer) pods(w http.ResponseWriter, r *http.Request) {
	clients := m.clients.Load()
	if clients == nil {
		http.Error(w, "not measured yet", http.StatusServiceUnavailable)
		return
	}
	pods, err := clients.CoreV1().Pods(r.PathValue("namespace")).List(r.Context(), metav1.ListOptions{
		LabelSelector: r.URL.Query().Get("labelSelector"), FieldSelector: "status.phase=Running",
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	list := &metricsv1beta1.PodMetricsList{TypeMeta: metav1.TypeMeta{APIVersion: "metrics.k8s.io/v1beta1", Kind: "PodMetricsList"}}
	for _, pod := range pods.Items {
		usage := resource.NewMilliQuantity(m.load.Load()/int64(len(pods.Items)), resource.DecimalSI)
		list.Items = append(list.Items, metricsv1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, Timestamp: metav1.Now(), Window: metav1.Duration{Duration: time.Second},
			Containers: []metricsv1beta1.ContainerMetrics{{Name: pod.Spec.Containers[0].Name, Usage: corev1.ResourceList{corev1.ResourceCPU: *usage}}},
		})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list) // The controller reports a short answer.
}

const busy = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: busy}
spec:
  selector: {matchLabels: {app: busy}}
  template:
    metadata: {labels: {app: busy}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: busy, image: nginx, resources: {requests: {cpu: 100m}}}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: busy}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: busy}
  minReplicas: 1
  maxReplicas: 5
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 100}}}]
  behavior: {scaleDown: {stabilizationWindowSeconds: 0}}
`

// autoscalerFollows raises and lowers the load of a Deployment with an autoscaler.
func autoscalerFollows(t *testing.T, p *plane.Plane, metrics *metricsServer) {
	in := func(args ...string) []string { return append(args, "-n", "busy") }
	row := func(pattern string) {
		t.Helper()
		expectSoon(t, p, `^NAME +REFERENCE +TARGETS +MINPODS +MAXPODS +REPLICAS +AGE\nbusy +Deployment/busy +`+pattern+` +\S+\n$`, in("get", "hpa")...)
	}
	expect(t, p, "", `created`, "create", "namespace", "busy")
	metrics.load.Store(100)
	expect(t, p, busy, `^deployment\.apps/busy created\nhorizontalpodautoscaler\.autoscaling/busy created\n$`, in("create", "-f", "-")...)
	row(`cpu: 100%/100% +1 +5 +1`)
	metrics.load.Store(2000)
	row(`cpu: 400%/100% +1 +5 +5`)
	expectSoon(t, p, `^5 5$`, in("get", "deployment", "busy", "-o", "jsonpath={.spec.replicas} {.status.availableReplicas}")...)
	expectSoon(t, p, `(?s)\nReference: +Deployment/busy\nMetrics: +\( current / target \)\n +resource cpu on pods +\(as a percentage of request\): +400% \(400m\) / 100%\n`+
		`Min replicas: +1\nMax replicas: +5\n.*\nDeployment pods: +5 current / 5 desired\n.*`+
		`AbleToScale +True +ReadyForNewScale +.*`+
		`ScalingActive +True +ValidMetricFound +the HPA was able to successfully calculate a replica count from cpu resource utilization \(percentage of request\)\n.*`+
		`ScalingLimited +True +TooManyReplicas +the desired replica count is more than the maximum replica count\n.*`+
		`Normal +SuccessfulRescale .* New size: 5; reason: cpu resource utilization \(percentage of request\) above target\n`, in("describe", "hpa", "busy")...)
	metrics.load.Store(150)
	row(`cpu: 75%/100% +1 +5 +2`)
	expectSoon(t, p, `^2 2 2$`, in("get", "deployment", "busy", "-o", "jsonpath={.spec.replicas} {.status.availableReplicas} {.status.replicas}")...)
	expectSoon(t, p, `(?s)Deployment pods: +2 current / 2 desired\n.*ScalingLimited +False +DesiredWithinRange +the desired count is within the acceptable range\n.*`+
		`Normal +SuccessfulRescale .* New size: 2; reason: All metrics below target\n`, in("describe", "hpa", "busy")...)
	metrics.load.Store(10)
	row(`cpu: 10%/100% +1 +5 +1`)
	expect(t, p, "", `deleted`, "delete", "namespace", "busy", "--wait", "--timeout=180s")
}
