package observability

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// Places in the repository.
const (
	Scrapes    = "compose/prometheus/prometheus.yml"
	RulesDir   = "compose/prometheus/rules"
	RuleTests  = "compose/prometheus/tests"
	Dashboards = "compose/grafana/dashboards"
	Runbooks   = "docs/operate/runbooks"
	Inventory  = "docs/reference/metrics.md"
)

// Rule is an alert or a recording rule.
type Rule struct {
	File        string
	Alert       string            `json:"alert"`
	Record      string            `json:"record"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// Rules reads all rules of the repository at root.
func Rules(root string) ([]Rule, error) {
	files, err := filepath.Glob(filepath.Join(root, RulesDir, "*.yml"))
	if err != nil {
		return nil, err
	}
	var rules []Rule
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var content struct {
			Groups []struct {
				Name  string `json:"name"`
				Rules []Rule `json:"rules"`
			} `json:"groups"`
		}
		if err := yaml.UnmarshalStrict(data, &content); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		for _, group := range content.Groups {
			for _, rule := range group.Rules {
				rule.File = file
				rules = append(rules, rule)
			}
		}
	}
	return rules, nil
}

// Panel is a panel of a dashboard.
type Panel struct {
	Dashboard, Title string
	Queries          []Query
}

// Query is an expression of a panel, with the legend of its series.
type Query struct {
	Expr   string `json:"expr"`
	Legend string `json:"legendFormat"`
}

// Panels reads all panels, except rows, of the repository at root.
func Panels(root string) ([]Panel, error) {
	files, err := filepath.Glob(filepath.Join(root, Dashboards, "*.json"))
	if err != nil {
		return nil, err
	}
	var panels []Panel
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var content struct {
			Panels []struct {
				Type    string  `json:"type"`
				Title   string  `json:"title"`
				Targets []Query `json:"targets"`
			} `json:"panels"`
		}
		if err := json.Unmarshal(data, &content); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		for _, p := range content.Panels {
			if p.Type != "row" {
				panels = append(panels, Panel{Dashboard: filepath.Base(file), Title: p.Title, Queries: p.Targets})
			}
		}
	}
	return panels, nil
}

// Metric is a row in the list of metrics.
type Metric struct {
	Name, Type, Meaning string
	Labels              []string
	// Own reports whether Garboard itself defines the metric.
	Own bool
}

// others is the heading of the metrics that Garboard does not define.
const others = "## Of others"

var backquoted = regexp.MustCompile("`([^`]*)`")

// Listed reads the list of metrics of the repository at root.
func Listed(root string) (map[string]Metric, error) {
	data, err := os.ReadFile(filepath.Join(root, Inventory))
	if err != nil {
		return nil, err
	}
	listed, own := map[string]Metric{}, true
	for line := range strings.Lines(string(data)) {
		if strings.TrimSpace(line) == others {
			own = false
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		name := backquoted.FindStringSubmatch(cells[0])
		if !strings.HasPrefix(line, "| `") || len(cells) != 4 || name == nil {
			continue
		}
		if _, twice := listed[name[1]]; twice {
			return nil, fmt.Errorf("%s has %s twice", Inventory, name[1])
		}
		metric := Metric{Name: name[1], Type: strings.TrimSpace(cells[1]), Meaning: strings.TrimSpace(cells[3]), Own: own}
		for _, label := range backquoted.FindAllStringSubmatch(cells[2], -1) {
			metric.Labels = append(metric.Labels, label[1])
		}
		listed[metric.Name] = metric
	}
	return listed, nil
}

// Base returns the metric that a series belongs to: for a histogram's buckets, sum and count it is
// the histogram.
func Base(series string, listed map[string]Metric) string {
	if _, ok := listed[series]; ok {
		return series
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(series, suffix); ok && listed[base].Type == "histogram" {
			return base
		}
	}
	return series
}
