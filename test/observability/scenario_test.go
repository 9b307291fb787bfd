package observability_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/test/observability"
)

// TestRealPrometheus runs the plane under load, monitored by a Prometheus as in a deployment. It
// checks that every rule can be evaluated, that every panel of every dashboard shows data, and that
// the served metrics are the listed ones. A healthy plane must raise no alerts, and an
// unschedulable pod must raise one. Built with the tag containers, the plane has a real node, too, whose
// network the panels show.
func TestRealPrometheus(t *testing.T) {
	binary := program(t, "prometheus")
	node := newRealNode(t)
	d := deploy(t, node.address(t))
	node.start(t, d)
	prometheus := watch(t, binary, d)
	load(t, d)
	targets := 1
	for _, of := range d.targets {
		targets += len(of)
	}
	eventually(t, "every target is scraped", func() error { return prometheus.targetsUp(targets) })
	all := rules(t)
	eventually(t, "every rule is evaluated", func() error { return prometheus.rulesHealthy(len(all)) })
	waiting := map[string]func() error{}
	for _, rule := range all {
		waiting["the rule "+rule.Alert+rule.Record] = func() error {
			samples, err := prometheus.query(rule.Expr)
			if err == nil && rule.Record != "" && !slices.ContainsFunc(samples, sample.finite) {
				err = errors.New("it returns nothing")
			}
			return err
		}
	}
	for _, panel := range panels(t) {
		for i, query := range panel.Queries {
			if node == nil && ofNetwork(query) {
				continue
			}
			waiting[fmt.Sprintf("%s: %s, query %d", panel.Dashboard, panel.Title, i+1)] = func() error { return shows(prometheus, query) }
		}
	}
	for job := range d.targets {
		if job == "etcd" {
			continue
		}
		for _, metric := range []string{"garboard_build_info", "garboard_certificate_expiration_timestamp_seconds", "garboard_bus_connected", "process_start_time_seconds"} {
			every := fmt.Sprintf("count(count by (instance) (%s{job=%q}))", metric, job)
			waiting[every] = func() error {
				samples, err := prometheus.query(every)
				if err == nil && (len(samples) != 1 || samples[0].Value[1] != strconv.Itoa(len(d.targets[job]))) {
					err = fmt.Errorf("not every instance has it: %v", samples)
				}
				return err
			}
		}
	}
	allEventually(t, waiting)
	metricsAreListed(t, prometheus)
	expected := append(slices.Clip(ofSpeed), "GarboardPodsUnschedulable")
	if node != nil {
		expected = append(expected, "GarboardPodNetworkPeersUnreached") // The simulated nodes answer no real one.
	}
	alertsAreRight(t, prometheus, expected)
}

// ofNetwork reports whether a query asks for metrics of pods' network, which only nodes with containers have.
func ofNetwork(query observability.Query) bool {
	return slices.ContainsFunc(observability.Metrics(query.Expr), func(metric string) bool {
		return slices.ContainsFunc([]string{"garboard_network_", "garboard_pod_network_", "kubeproxy_", "coredns_"}, func(prefix string) bool { return strings.HasPrefix(metric, prefix) })
	})
}

// load puts the plane under load until the test ends: a Deployment that is scaled up and down, pods
// of which one fits no node, and a watch.
func load(t *testing.T, d *deployment) {
	t.Helper()
	api, err := client.New(d.api, scheme.New())
	if err != nil {
		t.Fatal(err)
	}
	deployments, pods := client.Of[*appsv1.Deployment](api), client.Of[*corev1.Pod](api)
	labels := map[string]string{"app": "nginx"}
	container := corev1.Container{Name: "nginx", Image: "nginx:1.14.2"}
	replicas := int32(2)
	eventually(t, "the Deployment is created", func() error {
		_, err := deployments.Create(t.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nginx"},
			Spec: appsv1.DeploymentSpec{
				Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{container}}},
			},
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	eventually(t, "the Deployment's pods run", func() error {
		nginx, err := deployments.Get(t.Context(), "default", "nginx", metav1.GetOptions{})
		if err == nil && nginx.Status.AvailableReplicas != replicas {
			err = fmt.Errorf("%d are available", nginx.Status.AvailableReplicas)
		}
		return err
	})
	large := container
	large.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10k")}
	if _, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "large"}, Spec: corev1.PodSpec{Containers: []corev1.Container{large}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	watch, err := pods.Watch(t.Context(), "default", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var working sync.WaitGroup
	t.Cleanup(func() {
		watch.Stop()
		cancel()
		working.Wait()
	})
	working.Go(func() {
		for range watch.ResultChan() { // drain the watch
		}
	})
	working.Go(func() {
		tick := time.NewTicker(2 * time.Second)
		defer tick.Stop()
		for n := int32(3); ; n = 5 - n { // alternate between 3 and 2 replicas
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n)
			if _, err := deployments.Patch(ctx, "default", "nginx", types.MergePatchType, patch, metav1.PatchOptions{}, ""); err != nil && ctx.Err() == nil {
				t.Logf("scaling: %v", err)
			}
		}
	})
}

// allEventually waits until every check has returned nil once, and reports those that never did.
func allEventually(t *testing.T, waiting map[string]func() error) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		problems := map[string]error{}
		for what, check := range waiting {
			if err := check(); err != nil {
				problems[what] = err
			} else {
				delete(waiting, what)
			}
		}
		if len(problems) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			for what, problem := range problems {
				t.Errorf("%s: %v", what, problem)
			}
			return
		}
	}
}

// grafanas replaces the variables that Grafana would substitute.
var grafanas = strings.NewReplacer("$__rate_interval", "10s", "$__interval", "10s", "$__range", "1m")

// legendLabel matches a label in a legend.
var legendLabel = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

// shows returns an error if a panel's query shows nothing to an operator.
func shows(p *prometheus, query observability.Query) error {
	expression := grafanas.Replace(query.Expr)
	samples, err := p.query(expression)
	if err != nil {
		return fmt.Errorf("%s: %w", expression, err)
	}
	if !slices.ContainsFunc(samples, sample.finite) {
		return fmt.Errorf("%s is empty: %v", expression, samples)
	}
	for _, label := range legendLabel.FindAllStringSubmatch(query.Legend, -1) {
		if !slices.ContainsFunc(samples, func(s sample) bool { return len(s.Labels) == 0 || s.Labels[label[1]] != "" }) {
			return fmt.Errorf("the series of %s have no label %s: %v", expression, label[1], samples)
		}
	}
	return nil
}

// ownPrefixes are the prefixes of metrics that only Garboard has.
var ownPrefixes = []string{"garboard_", "informer_", "apiserver_", "scheduler_", "kubelet_", "workqueue_", "controller_runtime_", "rest_client_", "leader_election_", "authentication_"}

// metricsAreListed checks that the list of metrics is complete, with the right types and labels.
func metricsAreListed(t *testing.T, p *prometheus) {
	t.Helper()
	known := listed(t)
	var metadata map[string][]struct {
		Type string `json:"type"`
	}
	if err := p.get("metadata", url.Values{"limit": {"10000"}}, &metadata); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for name, said := range metadata {
		if !slices.ContainsFunc(ownPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		seen++
		metric, ok := known[name]
		if !ok {
			t.Errorf("%s is served but not listed", name)
			continue
		}
		if said[0].Type != metric.Type {
			t.Errorf("%s is a %s, listed as a %s", name, said[0].Type, metric.Type)
		}
		series := name
		if metric.Type == "histogram" {
			series += "_count"
		}
		samples, err := p.query(series)
		if err != nil {
			t.Error(err)
		}
		labels := map[string]bool{}
		for _, s := range samples {
			for label := range s.Labels {
				labels[label] = true
			}
		}
		for _, added := range []string{"__name__", "job", "instance"} {
			delete(labels, added)
		}
		// Prometheus drops labels that are empty everywhere.
		for label := range labels {
			if !slices.Contains(metric.Labels, label) {
				t.Errorf("%s has the labels %v, but the list has %v", name, slices.Sorted(maps.Keys(labels)), metric.Labels)
			}
		}
	}
	if seen < 60 {
		t.Errorf("got only %d metrics of Garboard", seen)
	}
}

// ofSpeed are the alerts that an overloaded machine raises, such as one that runs many tests at
// once.
var ofSpeed = []string{
	"GarboardApiserverSlow", "GarboardApiserverOverloaded", "GarboardEtcdSlowDisk", "GarboardEtcdLeaderChanges", "GarboardPodStartsSlow",
	"GarboardSchedulingSlow", "GarboardInformerLags", "GarboardFollowFallsBack", "GarboardSlowConsumer",
}

// alertsAreRight checks that the pod that fits no node raises its alert, and that there are no others than the expected
// ones.
func alertsAreRight(t *testing.T, p *prometheus, expected []string) {
	t.Helper()
	eventually(t, "the only alert is about the unschedulable pod", func() error {
		states, err := p.alerts()
		if err != nil {
			return err
		}
		if states["GarboardPodsUnschedulable"] != "pending" {
			return fmt.Errorf("no alert is about the unschedulable pod: %v", states)
		}
		for _, alert := range expected {
			delete(states, alert)
		}
		if len(states) > 0 {
			return fmt.Errorf("unexpected: %v", states)
		}
		return nil
	})
}

// TestAlertsByPromtool runs promtool's tests of the alerts.
func TestAlertsByPromtool(t *testing.T) {
	binary := program(t, "promtool")
	tests, err := filepath.Glob(filepath.Join(root, observability.RuleTests, "*.yml"))
	if err != nil || len(tests) == 0 {
		t.Fatalf("%d tests were found, %v", len(tests), err)
	}
	for _, args := range [][]string{{"check", "config", "--syntax-only", filepath.Join(root, observability.Scrapes)}, append([]string{"test", "rules"}, tests...)} {
		if output, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", args[0], err, output)
		}
	}
}
