package sample

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// GadgetGroup is the API group of gadgets, the custom resources that benchmarks use. Their version is v1.
const GadgetGroup = "bench.example.com"

// Gadgets is the definition of gadgets: 25 fields, among them a list with keys and a map, defaults, a CEL
// rule, a status and printer columns.
const Gadgets = `{
"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gadgets.bench.example.com"},
"spec": {
  "group": "bench.example.com", "scope": "Namespaced",
  "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
  "versions": [{
    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
    "additionalPrinterColumns": [
      {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"}, {"name": "Phase", "type": "string", "jsonPath": ".status.phase"}
    ],
    "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {
      "spec": {
        "type": "object", "required": ["image", "replicas"],
        "x-kubernetes-validations": [{"rule": "self.replicas <= self.limit", "message": "replicas must not exceed limit"}],
        "properties": {
          "image": {"type": "string", "minLength": 1, "maxLength": 256},
          "replicas": {"type": "integer", "format": "int32", "minimum": 0},
          "limit": {"type": "integer", "format": "int32", "default": 100},
          "paused": {"type": "boolean", "default": false},
          "strategy": {"type": "string", "enum": ["Rolling", "Recreate"], "default": "Rolling"},
          "labels": {"type": "object", "additionalProperties": {"type": "string"}},
          "ports": {
            "type": "array", "maxItems": 16, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name", "port"], "properties": {
              "name": {"type": "string", "maxLength": 63}, "port": {"type": "integer", "format": "int32"}, "protocol": {"type": "string", "default": "TCP"}
            }}
          },
          "env": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "string"}}}},
          "resources": {"type": "object", "properties": {
            "cpu": {"x-kubernetes-int-or-string": true}, "memory": {"x-kubernetes-int-or-string": true}
          }},
          "template": {"type": "object", "properties": {
            "command": {"type": "array", "items": {"type": "string"}}, "args": {"type": "array", "items": {"type": "string"}},
            "workingDir": {"type": "string"}, "user": {"type": "integer"}
          }}
        }
      },
      "status": {"type": "object", "properties": {
        "phase": {"type": "string"}, "ready": {"type": "integer"}, "observedGeneration": {"type": "integer"},
        "conditions": {
          "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
          "items": {"type": "object", "required": ["type", "status"], "properties": {
            "type": {"type": "string"}, "status": {"type": "string"}, "reason": {"type": "string"}, "message": {"type": "string"},
            "lastTransitionTime": {"type": "string", "format": "date-time"}
          }}
        }
      }}
    }}}
  }]
}}`

// Gadget returns a gadget of about 1 KB. An update has a resourceVersion, and a mark by which it differs.
func Gadget(namespace, name string, n int, resourceVersion, mark string) []byte {
	metadata := map[string]any{
		"name": name, "namespace": namespace, "labels": map[string]any{"app": "app-" + strconv.Itoa(n/10), "tier": "backend"},
		"annotations": map[string]any{"example.com/owner": "team-" + strconv.Itoa(n%7), "example.com/mark": mark},
	}
	if resourceVersion != "" {
		metadata["resourceVersion"] = resourceVersion
	}
	data, err := json.Marshal(map[string]any{
		"apiVersion": GadgetGroup + "/v1", "kind": "Gadget", "metadata": metadata,
		"spec": map[string]any{
			"image": "registry.example.com/team/app:v1.2.3", "replicas": n % 50, "labels": map[string]any{"a": "1", "b": "2", "c": "3"},
			"ports":     []any{map[string]any{"name": "http", "port": 8080}, map[string]any{"name": "metrics", "port": 9090, "protocol": "TCP"}},
			"env":       []any{map[string]any{"name": "MODE", "value": "production"}, map[string]any{"name": "MARK", "value": mark}},
			"resources": map[string]any{"cpu": "100m", "memory": "128Mi"},
			"template":  map[string]any{"command": []any{"/app"}, "args": []any{"--port=8080", "--log-level=info"}, "workingDir": "/srv", "user": 1000},
		},
	})
	if err != nil {
		panic(err) // It has only texts, numbers, maps and lists.
	}
	return data
}

// WidgetGroup is the API group of the kinds that Widgets defines, in version v1.
func WidgetGroup(n int) string { return fmt.Sprintf("group%d.bench.example.com", n/10) }

// Widgets returns the definition of kind number n, ten in a group, with a schema of about 10 KB: 100 fields
// with descriptions.
func Widgets(n int) []byte {
	properties := map[string]any{}
	for i := range 10 {
		inner := map[string]any{}
		for j := range 10 {
			inner["field"+strconv.Itoa(j)] = map[string]any{
				"type": "string", "description": fmt.Sprintf("field%d is a text about part %d of kind %d.", j, i, n),
			}
		}
		properties["part"+strconv.Itoa(i)] = map[string]any{"type": "object", "description": "part" + strconv.Itoa(i) + " has ten fields.", "properties": inner}
	}
	name := strconv.Itoa(n)
	data, err := json.Marshal(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widget" + name + "s." + WidgetGroup(n)},
		"spec": map[string]any{
			"group": WidgetGroup(n), "scope": "Namespaced",
			"names": map[string]any{"plural": "widget" + name + "s", "singular": "widget" + name, "kind": "Widget" + name, "listKind": "Widget" + name + "List"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
					"spec":   map[string]any{"type": "object", "properties": properties},
					"status": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
				}}},
			}},
		},
	})
	if err != nil {
		panic(err) // It has only texts, maps and lists.
	}
	return data
}
