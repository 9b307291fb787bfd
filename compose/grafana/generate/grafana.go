package main

import (
	"bytes"
	"encoding/json"
)

// dashboard is one Grafana dashboard.
type dashboard struct {
	// id names the file; with the prefix garboard- it is the dashboard's UID in Grafana.
	id, title string
	rows      []row
}

// row is a group of panels under a heading.
type row struct {
	title  string
	panels []panel
}

// panel is one graph.
type panel struct {
	title string
	// about describes what the panel shows and which values are good; may be empty.
	about string
	// unit is a Grafana unit, such as short, s, bytes, percentunit or reqps.
	unit    string
	queries []query
	// now shows the current value instead of a graph.
	now bool
}

// query is a PromQL expression with the legend of its series.
type query struct{ expr, legend string }

// Layout: Grafana's grid has 24 columns.
const (
	columns     = 24
	graphWidth  = 8
	graphHeight = 8
	nowWidth    = 4
	nowHeight   = 5
)

type object = map[string]any

// source returns the reference to the data source that the user selects on the dashboard.
func source() object { return object{"type": "prometheus", "uid": "${datasource}"} }

// encode returns the dashboard in Grafana's JSON format.
func (d dashboard) encode() ([]byte, error) {
	panels, id, y := []object{}, 0, 0
	for _, r := range d.rows {
		id++
		panels = append(panels, object{
			"id": id, "type": "row", "title": r.title, "collapsed": false, "panels": []object{},
			"gridPos": object{"x": 0, "y": y, "w": columns, "h": 1},
		})
		y++
		x, height := 0, 0
		for _, p := range r.panels {
			w, h := graphWidth, graphHeight
			if p.now {
				w, h = nowWidth, nowHeight
			}
			if x+w > columns {
				x, y, height = 0, y+height, 0
			}
			id++
			encoded := p.encode()
			encoded["id"], encoded["gridPos"] = id, object{"x": x, "y": y, "w": w, "h": h}
			panels = append(panels, encoded)
			x, height = x+w, max(height, h)
		}
		y += height
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(object{
		"uid": "garboard-" + d.id, "title": "Garboard / " + d.title, "tags": []string{"garboard"},
		"schemaVersion": 39, "version": 1, "editable": true, "graphTooltip": 1, "timezone": "browser",
		"refresh": "30s", "time": object{"from": "now-1h", "to": "now"},
		"links": []object{{
			"type": "dashboards", "title": "Garboard", "tags": []string{"garboard"}, "asDropdown": true, "includeVars": true, "keepTime": true,
		}},
		"templating": object{"list": []object{{
			"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0, "refresh": 1,
		}}},
		"annotations": object{"list": []object{}},
		"panels":      panels,
	})
	return out.Bytes(), err
}

func (p panel) encode() object {
	targets := make([]object, 0, len(p.queries))
	for i, q := range p.queries {
		targets = append(targets, object{
			"refId": string(rune('A' + i)), "datasource": source(), "expr": q.expr, "legendFormat": q.legend, "range": !p.now, "instant": p.now,
		})
	}
	encoded := object{
		"type": "timeseries", "title": p.title, "datasource": source(), "targets": targets,
		"fieldConfig": object{"defaults": object{
			"unit": p.unit, "min": 0, "custom": object{"lineWidth": 1, "fillOpacity": 8, "showPoints": "never"},
		}, "overrides": []object{}},
		"options": object{
			"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi", "sort": "desc"},
		},
	}
	if p.now {
		encoded["type"] = "stat"
		encoded["fieldConfig"] = object{"defaults": object{"unit": p.unit}, "overrides": []object{}}
		encoded["options"] = object{
			"colorMode": "none", "graphMode": "none", "textMode": "value_and_name", "reduceOptions": object{"calcs": []string{"lastNotNull"}},
		}
	}
	if p.about != "" {
		encoded["description"] = p.about
	}
	return encoded
}

// graph returns a panel with one query.
func graph(title, unit, expr, legend string) panel {
	return panel{title: title, unit: unit, queries: []query{{expr, legend}}}
}

// now returns a panel with the current value of one query.
func now(title, unit, expr, legend string) panel {
	return panel{title: title, unit: unit, queries: []query{{expr, legend}}, now: true}
}

// saying returns p with a description.
func (p panel) saying(about string) panel {
	p.about = about
	return p
}

// quantiles returns a graph of a histogram's median and 99th percentile, grouped by a label unless by
// is empty.
func quantiles(title, buckets, by string) panel {
	legend, grouping := "", "le"
	if by != "" {
		legend, grouping = " {{"+by+"}}", by+", le"
	}
	of := "sum by (" + grouping + ") (rate(" + buckets + "[$__rate_interval]))"
	return panel{title: title, unit: "s", queries: []query{
		{"histogram_quantile(0.99, " + of + ")", "99%" + legend}, {"histogram_quantile(0.5, " + of + ")", "50%" + legend},
	}}
}

// process returns the row of panels with the resource usage of a job's processes.
func process(job string) row {
	at := `{job="` + job + `"}`
	return row{"Processes", []panel{
		graph("CPU", "short", "rate(process_cpu_seconds_total"+at+"[$__rate_interval])", "{{instance}}").saying("Cores in use."),
		graph("Memory", "bytes", "process_resident_memory_bytes"+at, "{{instance}}"),
		graph("Goroutines", "short", "go_goroutines"+at, "{{instance}}").saying("Steady growth without more load is a leak."),
	}}
}
