package main

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const definitions = "#/definitions/"

// kubernetes returns the Kubernetes types that values may have, by the names of their definitions.
func kubernetes() map[string]reflect.Type {
	return map[string]reflect.Type{
		"core.Affinity":                               reflect.TypeFor[corev1.Affinity](),
		"core.EnvVar":                                 reflect.TypeFor[corev1.EnvVar](),
		"core.LocalObjectReference":                   reflect.TypeFor[corev1.LocalObjectReference](),
		"core.PodSecurityContext":                     reflect.TypeFor[corev1.PodSecurityContext](),
		"core.ResourceRequirements":                   reflect.TypeFor[corev1.ResourceRequirements](),
		"core.SecurityContext":                        reflect.TypeFor[corev1.SecurityContext](),
		"core.Toleration":                             reflect.TypeFor[corev1.Toleration](),
		"core.TopologySpreadConstraint":               reflect.TypeFor[corev1.TopologySpreadConstraint](),
		"core.Volume":                                 reflect.TypeFor[corev1.Volume](),
		"core.VolumeMount":                            reflect.TypeFor[corev1.VolumeMount](),
		"autoscaling.HorizontalPodAutoscalerBehavior": reflect.TypeFor[autoscalingv2.HorizontalPodAutoscalerBehavior](),
		"networking.NetworkPolicyPeer":                reflect.TypeFor[networkingv1.NetworkPolicyPeer](),
		"networking.NetworkPolicyEgressRule":          reflect.TypeFor[networkingv1.NetworkPolicyEgressRule](),
	}
}

// schemer completes the schema root.
type schemer struct {
	root map[string]any
}

func (s schemer) definitions() map[string]any { return s.root["definitions"].(map[string]any) }

// complete inserts the common parts of components and the definitions of Kubernetes types, and
// closes all objects.
func (s schemer) complete() error {
	common, ok := s.root["components"].(map[string]any)
	if !ok {
		return fmt.Errorf("there are no components")
	}
	delete(s.root, "components")
	for name, property := range s.root["properties"].(map[string]any) {
		component, _ := property.(map[string]any)
		parts, ok := component["$component"].([]any)
		if !ok {
			continue
		}
		delete(component, "$component")
		properties, _ := component["properties"].(map[string]any)
		if properties == nil {
			properties = map[string]any{}
			component["properties"] = properties
		}
		for _, part := range append(parts, "all") {
			given, ok := common[part.(string)].(map[string]any)
			if !ok {
				return fmt.Errorf("%s: there is no common part %v", name, part)
			}
			for key, value := range given {
				if _, twice := properties[key]; twice {
					return fmt.Errorf("%s: %s is described twice", name, key)
				}
				properties[key] = clone(value)
			}
		}
	}
	for name, kind := range kubernetes() {
		s.definitions()[name] = nil // prevents types that refer to it from defining it again
		s.definitions()[name] = s.object(kind)
	}
	s.close(s.root, false)
	return nil
}

// close forbids properties that an object does not name, except in conditions, which name only some.
func (s schemer) close(node any, condition bool) {
	switch node := node.(type) {
	case map[string]any:
		if _, ok := node["properties"].(map[string]any); ok && !condition {
			node["type"], node["additionalProperties"] = "object", false
		}
		for key, value := range node {
			if key == "properties" || key == "definitions" {
				for _, property := range value.(map[string]any) {
					s.close(property, condition)
				}
				continue
			}
			s.close(value, condition || slices.Contains([]string{"if", "then", "else", "not", "anyOf", "allOf", "oneOf"}, key))
		}
	case []any:
		for _, value := range node {
			s.close(value, condition)
		}
	}
}

// require makes each value with a default required: setting it to null would produce a broken
// manifest. It fails if schema and defaults do not have the same values.
func (s schemer) require(node, defaults map[string]any, where string) error {
	properties, ok := node["properties"].(map[string]any)
	if !ok {
		return nil
	}
	for name := range properties {
		if _, ok := defaults[name]; !ok && name != "global" {
			return fmt.Errorf("%s.%s is in the schema but has no default", where, name)
		}
	}
	for name, value := range defaults {
		property, ok := properties[name].(map[string]any)
		if !ok {
			return fmt.Errorf("%s.%s has a default but is not in the schema", where, name)
		}
		below, isObject := value.(map[string]any)
		for {
			ref, ok := property["$ref"].(string)
			if !ok {
				break
			}
			name := strings.TrimPrefix(ref, definitions)
			if _, ok := s.definitions()[name].(map[string]any); !ok {
				return fmt.Errorf("%s: there is no definition of %s", where, name)
			}
			isObject = isObject && kubernetes()[name] == nil
			property = s.definitions()[name].(map[string]any)
		}
		if isObject && property["properties"] != nil {
			if err := s.require(property, below, where+"."+name); err != nil {
				return err
			}
		}
	}
	node["required"] = slices.Sorted(maps.Keys(defaults))
	return nil
}

// object returns the schema of a Kubernetes type's JSON.
func (s schemer) object(kind reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	s.fields(kind, properties, &required)
	schema := map[string]any{"properties": properties}
	if len(required) > 0 {
		slices.Sort(required)
		schema["required"] = required
	}
	return schema
}

func (s schemer) fields(kind reflect.Type, properties map[string]any, required *[]string) {
	for field := range kind.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && field.Anonymous {
			s.fields(field.Type, properties, required)
			continue
		}
		properties[name] = s.of(field.Type)
		if !strings.Contains(options, "omitempty") && field.Type.Kind() != reflect.Pointer && field.Type.Kind() != reflect.Slice {
			*required = append(*required, name)
		}
	}
}

func (s schemer) of(kind reflect.Type) map[string]any {
	switch kind {
	case reflect.TypeFor[resource.Quantity]():
		return map[string]any{"type": []any{"string", "number"}}
	case reflect.TypeFor[intstr.IntOrString]():
		return map[string]any{"type": []any{"string", "integer"}}
	case reflect.TypeFor[metav1.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	}
	switch kind.Kind() {
	case reflect.Pointer:
		return s.of(kind.Elem())
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Slice:
		if kind.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string"}
		}
		return map[string]any{"type": "array", "items": s.of(kind.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": s.of(kind.Elem())}
	case reflect.Struct:
		name := packageOf(kind) + "." + kind.Name()
		if _, ok := s.definitions()[name]; !ok {
			s.definitions()[name] = nil
			s.definitions()[name] = s.object(kind)
		}
		return map[string]any{"$ref": definitions + name}
	default:
		panic(fmt.Sprintf("no schema for %v", kind))
	}
}

// packageOf returns the name of a type's API group: core for k8s.io/api/core/v1.
func packageOf(kind reflect.Type) string {
	parts := strings.Split(kind.PkgPath(), "/")
	return parts[len(parts)-2]
}

func clone(node any) any {
	switch node := node.(type) {
	case map[string]any:
		copied := map[string]any{}
		for key, value := range node {
			copied[key] = clone(value)
		}
		return copied
	case []any:
		copied := make([]any, len(node))
		for i, value := range node {
			copied[i] = clone(value)
		}
		return copied
	default:
		return node
	}
}
