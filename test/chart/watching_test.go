package chart_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/garboard/garboard/test/observability"
)

const repository = "../.."

// chosen returns the objects of a kind rendered from a set of values.
func chosen(t *testing.T, set, kind string) (found []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range rendered(t, set) {
		if object.GetKind() == kind {
			found = append(found, object)
		}
	}
	return found
}

// ruleGroups returns the groups of the set's single PrometheusRule, by name.
func ruleGroups(t *testing.T, set string) map[string][]any {
	t.Helper()
	made := chosen(t, set, "PrometheusRule")
	if len(made) != 1 {
		t.Fatalf("%s has %d PrometheusRules", set, len(made))
	}
	groups, _, err := unstructured.NestedSlice(made[0].Object, "spec", "groups")
	if err != nil {
		t.Fatal(err)
	}
	return byName(t, groups)
}

func byName(t *testing.T, groups []any) map[string][]any {
	t.Helper()
	found := map[string][]any{}
	for _, group := range groups {
		fields, _ := group.(map[string]any)
		name, _ := fields["name"].(string)
		rules, _ := fields["rules"].([]any)
		if name == "" || len(rules) == 0 || len(fields) != 2 || found[name] != nil {
			t.Fatalf("the group %v", group)
		}
		found[name] = rules
	}
	return found
}

// writtenGroups returns the groups of compose, without the named alerts.
func writtenGroups(t *testing.T, without ...string) map[string][]any {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, observability.RulesDir, "*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are %d files of rules, %v", len(files), err)
	}
	var all []any
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		groups, _ := decode(t, data)["groups"].([]any)
		all = append(all, groups...)
	}
	written := byName(t, all)
	for name, rules := range written {
		written[name] = slices.DeleteFunc(rules, func(rule any) bool {
			alert, _ := rule.(map[string]any)["alert"].(string)
			return slices.Contains(without, alert)
		})
	}
	return written
}

// TestRules checks that the groups of the PrometheusRule are those of compose, with each rule
// limited to the release's namespace, which is also its label.
func TestRules(t *testing.T) {
	for set, without := range map[string][]string{
		"certmanager": {"GarboardAuditLost"},
		// Only the nodes have a ServiceMonitor there.
		"builtin": {"GarboardApiserverDown", "GarboardControllersIdle", "GarboardSchedulerIdle"},
	} {
		t.Run(set, func(t *testing.T) {
			made := ruleGroups(t, set)
			for name, rules := range made {
				for _, rule := range rules {
					rule, _ := rule.(map[string]any)
					expression, _ := rule["expr"].(string)
					rule["expr"] = unscoped(t, expression, `namespace="planes"`)
					labels, _ := rule["labels"].(map[string]any)
					if labels["namespace"] != "planes" {
						t.Errorf("a rule of %s has the labels %v", name, labels)
					}
					if delete(labels, "namespace"); len(labels) == 0 {
						delete(rule, "labels")
					}
				}
			}
			want := writtenGroups(t, without...)
			for name := range want {
				if !equality.Semantic.DeepEqual(made[name], want[name]) {
					t.Errorf("the group %s is\n%v\nwant\n%v", name, made[name], want[name])
				}
			}
			if len(made) != len(want) {
				t.Errorf("there are %d groups, want %d", len(made), len(want))
			}
		})
	}
}

// unscoped removes the matcher from an expression, in which each selector must have it.
func unscoped(t *testing.T, expression, matcher string) string {
	t.Helper()
	for _, metric := range observability.Metrics(expression) {
		reads := regexp.MustCompile(`\b`+metric+`\b`).FindAllStringIndex(expression, -1)
		for _, read := range reads {
			if !strings.HasPrefix(expression[read[1]:], "{"+matcher) {
				t.Errorf("%s is not limited to the namespace in %s", metric, expression)
			}
		}
	}
	return strings.NewReplacer("{"+matcher+"}", "", matcher+",", "").Replace(expression)
}

// TestAbsenceIsSeen checks that no alert is about the absence of something that Prometheus does not
// scrape, and that the notes say so.
func TestAbsenceIsSeen(t *testing.T) {
	made, err := render(t, map[string]any{"prometheusRule": map[string]any{"enabled": true, "disabledAlerts": []any{"GarboardSchedulerIdle"}}})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(made.Manifest, "absent(") || !strings.Contains(made.Manifest, "GarboardTargetDown") {
		t.Error("rules are about absence, or are missing")
	}
	for alert, want := range map[string]bool{"GarboardApiserverDown": true, "GarboardControllersIdle": true, "GarboardSchedulerIdle": false} {
		if strings.Contains(made.Info.Notes, "the alert "+alert+" is left out, since ") != want {
			t.Errorf("wrong notes about %s:\n%s", alert, made.Info.Notes)
		}
	}
}

// TestJobs checks that the monitors name the jobs as compose does, which is how rules and
// dashboards refer to them.
func TestJobs(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(repository, observability.Scrapes))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	scrapes, _ := decode(t, data)["scrape_configs"].([]any)
	for _, scrape := range scrapes {
		if name, _ := scrape.(map[string]any)["job_name"].(string); name != "prometheus" {
			want = append(want, name)
		}
	}
	var got []string
	services := chosen(t, "certmanager", "Service")
	for _, monitor := range chosen(t, "certmanager", "ServiceMonitor") {
		selector, _, _ := unstructured.NestedStringMap(monitor.Object, "spec", "selector", "matchLabels")
		label, _, _ := unstructured.NestedString(monitor.Object, "spec", "jobLabel")
		endpoints, _, err := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
		if err != nil || len(endpoints) != 1 {
			t.Fatalf("%s has the endpoints %v, %v", monitor.GetName(), endpoints, err)
		}
		job := ""
		for _, service := range services {
			labels := service.GetLabels()
			matches := labels["garboard.io/service"] == ""
			for name, value := range selector {
				matches = matches && labels[name] == value
			}
			if matches && job != "" {
				t.Errorf("%s matches several Services", monitor.GetName())
			}
			if matches {
				job = labels[label]
			}
		}
		relabelings, _, _ := unstructured.NestedSlice(endpoints[0].(map[string]any), "relabelings")
		for _, relabeling := range relabelings {
			if change := relabeling.(map[string]any); change["targetLabel"] == "job" {
				job, _ = change["replacement"].(string)
			}
		}
		got = append(got, job)
	}
	slices.Sort(got)
	slices.Sort(want)
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("got the jobs %v, want %v", got, want)
	}
}

// TestDashboards checks that each dashboard of compose has a ConfigMap that Grafana's sidecar finds
// and etcd can store, with a variable for the namespace.
func TestDashboards(t *testing.T) {
	made := map[string]map[string]any{}
	for _, object := range chosen(t, "certmanager", "ConfigMap") {
		if object.GetLabels()["grafana_dashboard"] != "1" {
			continue
		}
		if object.GetAnnotations()["grafana_folder"] != "Garboard" {
			t.Errorf("%s has the annotations %v", object.GetName(), object.GetAnnotations())
		}
		data, _, err := unstructured.NestedStringMap(object.Object, "data")
		if err != nil || len(data) != 1 {
			t.Fatalf("%s has %d files, %v", object.GetName(), len(data), err)
		}
		for file, text := range data {
			// A ConfigMap may have at most 1 MiB in total.
			if len(text) > 512<<10 {
				t.Errorf("%s has %d bytes", file, len(text))
			}
			name := strings.TrimPrefix(file, "garboard-")
			made[name] = dashboard(t, []byte(text))
			if object.GetName() != "demo-garboard-dashboard-"+strings.TrimSuffix(name, ".json") {
				t.Errorf("%s is in %s", file, object.GetName())
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(repository, observability.Dashboards, "*.json"))
	if err != nil || len(files) == 0 || len(files) != len(made) {
		t.Fatalf("got %d dashboards and %d ConfigMaps, %v", len(files), len(made), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got := made[filepath.Base(file)]
		panels, _ := got["panels"].([]any)
		for _, panel := range panels {
			targets, _ := panel.(map[string]any)["targets"].([]any)
			for _, target := range targets {
				target, _ := target.(map[string]any)
				expression, _ := target["expr"].(string)
				target["expr"] = unscoped(t, expression, `namespace="$namespace"`)
			}
		}
		templating, _ := got["templating"].(map[string]any)
		variables, _ := templating["list"].([]any)
		if len(variables) != 2 || variables[1].(map[string]any)["name"] != "namespace" {
			t.Fatalf("%s has the variables %v", file, variables)
		}
		templating["list"] = variables[:1]
		if !equality.Semantic.DeepEqual(got, dashboard(t, data)) {
			t.Errorf("%s differs in the chart", file)
		}
	}
}

func dashboard(t *testing.T, data []byte) map[string]any {
	t.Helper()
	read := map[string]any{}
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	return read
}
