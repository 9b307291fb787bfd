package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// Matchers added to series selectors, since a cluster's Prometheus may scrape more than one plane. The
// chart inserts the release's namespace into rules; on dashboards the user selects the namespace.
const (
	ruleScope      = `namespace="RELEASE_NAMESPACE"`
	dashboardScope = `namespace="$namespace"`
)

type object = map[string]any

// watching converts the rules and dashboards of compose, and writes them into the chart's folder files.
func watching(chart, compose string) error {
	dir := filepath.Join(chart, "files")
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing the old files: %w", err)
	}
	return errors.Join(
		convert(filepath.Join(compose, "prometheus/rules/*.yml"), filepath.Join(dir, "rules"), rulesOf),
		convert(filepath.Join(compose, "grafana/dashboards/*.json"), filepath.Join(dir, "dashboards"), dashboardOf),
	)
}

func convert(pattern, dir string, change func([]byte) ([]byte, error)) error {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		return fmt.Errorf("there is no %s (%w)", pattern, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil {
			data, err = change(data)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(file)), data, 0o644)
		}
		if err != nil {
			return fmt.Errorf("converting %s for the chart: %w", file, err)
		}
	}
	return nil
}

// rulesOf scopes the rules of a file to the release's namespace.
func rulesOf(data []byte) ([]byte, error) {
	var content struct {
		Groups []struct {
			Name  string   `json:"name"`
			Rules []object `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(data, &content); err != nil {
		return nil, err
	}
	for _, group := range content.Groups {
		for _, rule := range group.Rules {
			expression, ok := rule["expr"].(string)
			if !ok {
				return nil, fmt.Errorf("a rule of %s has no expression", group.Name)
			}
			rule["expr"] = scope(expression, ruleScope)
		}
	}
	out, err := yaml.Marshal(content)
	return append([]byte("# Written by `make generate` from compose/prometheus/rules. Do not edit.\n"), out...), err
}

// dashboardOf scopes a dashboard to the namespace of a plane, which the user selects. The result is one
// line, since Helm stores it in each release and only Grafana reads it.
func dashboardOf(data []byte) ([]byte, error) {
	var content object
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&content); err != nil {
		return nil, err
	}
	panels, _ := content["panels"].([]any)
	for _, panel := range panels {
		panel, _ := panel.(object)
		targets, _ := panel["targets"].([]any)
		for _, target := range targets {
			target, _ := target.(object)
			expression, ok := target["expr"].(string)
			if !ok {
				return nil, fmt.Errorf("the panel %v has no expression", panel["title"])
			}
			target["expr"] = scope(expression, dashboardScope)
		}
	}
	templating, _ := content["templating"].(object)
	variables, ok := templating["list"].([]any)
	if !ok || len(panels) == 0 {
		return nil, errors.New("the dashboard has no variables or no panels")
	}
	templating["list"] = append(variables, object{
		"name": "namespace", "label": "Namespace", "type": "query", "hide": 0, "refresh": 2, "sort": 1,
		"datasource": object{"type": "prometheus", "uid": "${datasource}"},
		"query":      object{"query": "label_values(garboard_build_info, namespace)", "refId": "namespace"},
		"definition": "label_values(garboard_build_info, namespace)",
	})
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(content)
	return out.Bytes(), err
}
