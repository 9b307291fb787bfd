package observability_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/garboard/garboard/test/observability"
)

// root is the repository's root, relative to this folder.
const root = "../.."

// runbookURL is the address of the published runbooks.
const runbookURL = "https://github.com/garboard/garboard/blob/main/" + observability.Runbooks + "/"

func rules(t *testing.T) []observability.Rule {
	t.Helper()
	all, err := observability.Rules(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 30 {
		t.Fatalf("only %d rules were found", len(all))
	}
	return all
}

func panels(t *testing.T) []observability.Panel {
	t.Helper()
	all, err := observability.Panels(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 80 {
		t.Fatalf("only %d panels were found", len(all))
	}
	return all
}

func listed(t *testing.T) map[string]observability.Metric {
	t.Helper()
	all, err := observability.Listed(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 100 {
		t.Fatalf("only %d metrics are listed", len(all))
	}
	return all
}

// TestAlertsSayWhatToDo checks that each alert has what an operator needs, including a runbook with
// all sections, and that there are no runbooks of alerts that no longer exist.
func TestAlertsSayWhatToDo(t *testing.T) {
	alerts := map[string]bool{}
	for _, rule := range rules(t) {
		if rule.Alert == "" {
			continue
		}
		if alerts[rule.Alert] {
			t.Errorf("the alert %s is defined twice", rule.Alert)
		}
		alerts[rule.Alert] = true
		if severity := rule.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s has the severity %q", rule.Alert, severity)
		}
		for _, annotation := range []string{"summary", "description"} {
			if rule.Annotations[annotation] == "" {
				t.Errorf("%s has no %s", rule.Alert, annotation)
			}
		}
		if want := runbookURL + rule.Alert + ".md"; rule.Annotations["runbook_url"] != want {
			t.Errorf("%s has the runbook %q, want %s", rule.Alert, rule.Annotations["runbook_url"], want)
		}
		data, err := os.ReadFile(filepath.Join(root, observability.Runbooks, rule.Alert+".md"))
		if err != nil {
			t.Error(err)
			continue
		}
		page := string(data)
		if !strings.HasPrefix(page, "# "+rule.Alert+"\n") {
			t.Errorf("the runbook of %s begins with another title", rule.Alert)
		}
		if !strings.Contains(page, rule.Labels["severity"]) {
			t.Errorf("the runbook of %s does not say that it is %s", rule.Alert, rule.Labels["severity"])
		}
		for _, heading := range []string{"## What it means", "## How to see it", "## What to do", "## When it is over"} {
			if !strings.Contains(page, "\n"+heading+"\n") {
				t.Errorf("the runbook of %s has no section %s", rule.Alert, heading)
			}
		}
	}
	pages, err := filepath.Glob(filepath.Join(root, observability.Runbooks, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile(filepath.Join(root, observability.Runbooks, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		name := strings.TrimSuffix(filepath.Base(page), ".md")
		if name == "README" {
			continue
		}
		if !alerts[name] {
			t.Errorf("there is a runbook %s, but no such alert", name)
		}
		if !strings.Contains(string(index), "["+name+"]("+name+".md)") {
			t.Errorf("the list of runbooks lacks %s", name)
		}
	}
}

// TestMetricsThatAreReadExist checks that the metrics in rules and dashboards are listed or
// recorded.
func TestMetricsThatAreReadExist(t *testing.T) {
	known, recorded := listed(t), map[string]bool{}
	for _, rule := range rules(t) {
		if rule.Record != "" {
			recorded[rule.Record] = true
		}
	}
	used := map[string]bool{}
	check := func(where, expression string) {
		for _, metric := range observability.Metrics(expression) {
			base := observability.Base(metric, known)
			used[metric], used[base] = true, true
			if _, ok := known[base]; !ok && !recorded[metric] {
				t.Errorf("%s reads %s, which is neither listed in %s nor recorded:\n%s", where, metric, observability.Inventory, expression)
			}
		}
	}
	for _, rule := range rules(t) {
		check(rule.Alert+rule.Record, rule.Expr)
	}
	for _, panel := range panels(t) {
		if len(panel.Queries) == 0 {
			t.Errorf("the panel %s of %s has no query", panel.Title, panel.Dashboard)
		}
		for _, query := range panel.Queries {
			check(panel.Dashboard+": "+panel.Title, query.Expr)
		}
	}
	for name, metric := range known {
		if !metric.Own && !used[name] {
			t.Errorf("%s is listed among the metrics of others, but nothing reads it", name)
		}
	}
	for name := range recorded {
		if !used[name] {
			t.Errorf("%s is recorded, but nothing reads it", name)
		}
	}
}

// metricName matches the names of metrics in the sources.
var metricName = regexp.MustCompile(`"((?:aggregator|coredns|garboard|kubeproxy|informer|apiserver|attach_detach_controller|attachdetach_controller|authentication|etcd|scheduler|kubelet|workqueue|controller_persistentvolume|controller_persistentvolumeclaim|controller_runtime|cronjob_controller|device_taint_eviction_controller|dynamic_resource_allocation|endpoint_slice_controller|endpoint_slice_mirroring_controller|ephemeral_volume_controller|horizontal_pod_autoscaler_controller|job_controller|node_ipam_controller|pod_gc_collector|serviceaccount|statefulset_controller|storage_count|storage_operation|taint_eviction_controller|rest_client|leader_election)_[a-z0-9_]+)"`)

// proxyMetric matches the names of the proxy's metrics in its sources, which lack kube-proxy's prefix.
var proxyMetric = regexp.MustCompile(`\br\.(?:histogram|counters?|gauges?)\("([a-z0-9_]+)"`)

// TestListIsComplete checks that the list has exactly the metrics that the sources register.
func TestListIsComplete(t *testing.T) {
	inSources := map[string]string{}
	for _, dir := range []string{"libs", "services", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil || !bytes.Contains(data, []byte(`"github.com/prometheus/client_golang/prometheus"`)) {
				return err
			}
			for _, match := range metricName.FindAllSubmatch(data, -1) {
				inSources[string(match[1])] = path
			}
			if strings.HasSuffix(filepath.ToSlash(path), "/internal/proxy/metrics.go") {
				for _, match := range proxyMetric.FindAllSubmatch(data, -1) {
					inSources["kubeproxy_"+string(match[1])] = path
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	known := listed(t)
	for name, path := range inSources {
		if !known[name].Own {
			t.Errorf("%s registers %s, which %s does not list", path, name, observability.Inventory)
		}
	}
	for name, metric := range known {
		if metric.Own && inSources[name] == "" {
			t.Errorf("%s lists %s, which nothing registers", observability.Inventory, name)
		}
		if !slices.Contains([]string{"counter", "gauge", "histogram"}, metric.Type) || metric.Meaning == "" {
			t.Errorf("%s lists %s without a type or a meaning: %+v", observability.Inventory, name, metric)
		}
	}
}

// TestDashboardsAreCurrent checks that the dashboards are generated from the current tables.
func TestDashboardsAreCurrent(t *testing.T) {
	fresh := t.TempDir()
	generate := exec.CommandContext(t.Context(), "go", "run", "./compose/grafana/generate", fresh)
	generate.Dir = root
	if output, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	want := files(t, fresh)
	have := files(t, filepath.Join(root, observability.Dashboards))
	for name, content := range want {
		if have[name] != content {
			t.Errorf("%s/%s is not what compose/grafana/generate writes: run make generate", observability.Dashboards, name)
		}
	}
	if len(have) != len(want) {
		t.Errorf("got %d dashboards, but %d are generated", len(have), len(want))
	}
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[entry.Name()] = string(data)
	}
	return all
}
