// Command generate writes the generated files of the chart. It creates values.schema.json from
// schema.yaml and values.yaml, and README.md from README.md.gotmpl and the comments of values.yaml.
// It converts the rules and dashboards of compose into the folder files, since Helm reads nothing
// outside a chart.
//
//	go run ./helm/generate helm/garboard compose
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	_ "embed"

	"sigs.k8s.io/yaml"
)

//go:embed schema.yaml
var schemaSource []byte

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: generate CHART COMPOSE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func run(chart, compose string) error {
	values, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return fmt.Errorf("reading the values: %w", err)
	}
	schema, err := schemaOf(values, schemaSource)
	if err != nil {
		return fmt.Errorf("generating the schema of the values: %w", err)
	}
	page, err := os.ReadFile(filepath.Join(chart, "README.md.gotmpl"))
	if err != nil {
		return fmt.Errorf("reading the template of the README: %w", err)
	}
	readme, err := readmeOf(values, page)
	if err != nil {
		return fmt.Errorf("generating the README: %w", err)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(chart, "values.schema.json"), schema, 0o644),
		os.WriteFile(filepath.Join(chart, "README.md"), readme, 0o644),
		watching(chart, compose),
	)
}

// schemaOf returns the content of values.schema.json.
func schemaOf(values, source []byte) ([]byte, error) {
	var schema, defaults map[string]any
	if err := errors.Join(yaml.UnmarshalStrict(source, &schema), yaml.UnmarshalStrict(values, &defaults)); err != nil {
		return nil, err
	}
	s := schemer{root: schema}
	if err := s.complete(); err != nil {
		return nil, err
	}
	if err := s.require(schema, defaults, "values"); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(schema); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// readmeOf executes the template page: {{ values "apiserver" }} becomes the table of the values below
// apiserver, {{ values "" }} the table of the top-level values. Every value must be in a table.
func readmeOf(values, page []byte) ([]byte, error) {
	rows, err := parseValues(values)
	if err != nil {
		return nil, err
	}
	printed := map[string]bool{}
	parsed, err := template.New("README.md").Funcs(template.FuncMap{"values": func(section string) (string, error) {
		printed[section] = true
		return table(rows, section)
	}}).Parse(string(page))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString("<!-- Written by `make generate` from README.md.gotmpl and values.yaml. Do not edit. -->\n")
	if err := parsed.Execute(&out, nil); err != nil {
		return nil, err
	}
	for _, r := range rows {
		if !printed[r.section()] {
			return nil, fmt.Errorf("the page has no table for the values below %q", r.section())
		}
	}
	return out.Bytes(), nil
}
