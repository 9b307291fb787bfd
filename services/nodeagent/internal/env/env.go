// Package env builds the environment of a container: values with $(VAR) references, values from
// fields, resources, ConfigMaps and Secrets, and the addresses of Services.
package env

import (
	"context"
	"fmt"
	"maps"
	"sort"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/services/nodeagent/internal/downward"
)

// References reads the objects that an environment refers to. Errors are the API's.
type References interface {
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	Services(ctx context.Context, namespace string) ([]*corev1.Service, error)
}

// Var is one environment variable.
type Var struct{ Name, Value string }

// Environment is the environment of a container's process.
type Environment struct {
	// Vars are the variables, each name once, in order of declaration.
	Vars []Var
	// Skipped are envFrom keys that are not valid variable names, for an Event.
	Skipped []string
}

// Map returns the variables by name.
func (e Environment) Map() map[string]string {
	m := make(map[string]string, len(e.Vars))
	for _, v := range e.Vars {
		m[v.Name] = v.Value
	}
	return m
}

// Build builds the environment of one container. pod's status must hold its addresses; allocatable
// is the node's. An error says what a user has to correct, in the words of Kubernetes'
// CreateContainerConfigError.
func Build(ctx context.Context, pod *corev1.Pod, container *corev1.Container, refs References,
	allocatable corev1.ResourceList) (Environment, error) {
	b := builder{values: map[string]string{}}
	for i := range container.EnvFrom {
		if err := b.from(ctx, pod, &container.EnvFrom[i], refs); err != nil {
			return Environment{}, err
		}
	}
	services, err := serviceVars(ctx, pod, refs)
	if err != nil {
		return Environment{}, err
	}
	mapping := make(map[string]string, len(services))
	for _, v := range services {
		mapping[v.Name] = v.Value
	}
	maps.Copy(mapping, b.values)
	for i := range container.Env {
		declared := &container.Env[i]
		value := Expand(declared.Value, mapping)
		if declared.ValueFrom != nil {
			v, set, err := valueFrom(ctx, pod, container, declared.ValueFrom, refs, allocatable)
			if err != nil {
				return Environment{}, err
			}
			if !set {
				continue
			}
			value = v
		}
		b.set(declared.Name, value)
		mapping[declared.Name] = value
	}
	for _, v := range services {
		if _, declared := b.values[v.Name]; !declared {
			b.set(v.Name, v.Value)
		}
	}
	env := Environment{Skipped: b.skipped}
	for _, name := range b.order {
		env.Vars = append(env.Vars, Var{Name: name, Value: b.values[name]})
	}
	return env, nil
}

type builder struct {
	values  map[string]string
	order   []string
	skipped []string
}

func (b *builder) set(name, value string) {
	if _, known := b.values[name]; !known {
		b.order = append(b.order, name)
	}
	b.values[name] = value
}

func (b *builder) from(ctx context.Context, pod *corev1.Pod, source *corev1.EnvFromSource, refs References) error {
	data := map[string]string{}
	switch {
	case source.ConfigMapRef != nil:
		cm, err := refs.ConfigMap(ctx, pod.Namespace, source.ConfigMapRef.Name)
		if err != nil {
			if apierrors.IsNotFound(err) && isTrue(source.ConfigMapRef.Optional) {
				return nil
			}
			return err
		}
		data = cm.Data
	case source.SecretRef != nil:
		secret, err := refs.Secret(ctx, pod.Namespace, source.SecretRef.Name)
		if err != nil {
			if apierrors.IsNotFound(err) && isTrue(source.SecretRef.Optional) {
				return nil
			}
			return err
		}
		for key, value := range secret.Data {
			data[key] = string(value)
		}
	default:
		return fmt.Errorf("an envFrom names neither a configMapRef nor a secretRef")
	}
	keys := make([]string, 0, len(data))
	for key := range data {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for _, key := range keys {
		name := source.Prefix + key
		if !validName(name) {
			b.skipped = append(b.skipped, name)
			continue
		}
		b.set(name, data[key])
	}
	return nil
}

// validName reports whether name can be a variable: any printable ASCII character except '='
// (apimachinery's relaxed rule, which Kubernetes uses since 1.34).
func validName(name string) bool {
	if name == "" {
		return false
	}
	for _, r := range name {
		if r < ' ' || r > '~' || r == '=' {
			return false
		}
	}
	return true
}

func valueFrom(ctx context.Context, pod *corev1.Pod, container *corev1.Container, source *corev1.EnvVarSource, refs References,
	allocatable corev1.ResourceList) (value string, set bool, err error) {
	switch {
	case source.FieldRef != nil:
		value, err = downward.Field(pod, source.FieldRef.FieldPath)
		return value, err == nil, err
	case source.ResourceFieldRef != nil:
		value, err = downward.Resource(pod, container.Name, source.ResourceFieldRef, allocatable)
		return value, err == nil, err
	case source.ConfigMapKeyRef != nil:
		ref := source.ConfigMapKeyRef
		cm, err := refs.ConfigMap(ctx, pod.Namespace, ref.Name)
		if err != nil {
			if apierrors.IsNotFound(err) && isTrue(ref.Optional) {
				return "", false, nil
			}
			return "", false, err
		}
		value, set = cm.Data[ref.Key]
		if !set && !isTrue(ref.Optional) {
			return "", false, fmt.Errorf("couldn't find key %v in ConfigMap %v/%v", ref.Key, pod.Namespace, ref.Name)
		}
		return value, set, nil
	case source.SecretKeyRef != nil:
		ref := source.SecretKeyRef
		secret, err := refs.Secret(ctx, pod.Namespace, ref.Name)
		if err != nil {
			if apierrors.IsNotFound(err) && isTrue(ref.Optional) {
				return "", false, nil
			}
			return "", false, err
		}
		bytes, set := secret.Data[ref.Key]
		if !set && !isTrue(ref.Optional) {
			return "", false, fmt.Errorf("couldn't find key %v in Secret %v/%v", ref.Key, pod.Namespace, ref.Name)
		}
		return string(bytes), set, nil
	}
	return "", false, fmt.Errorf("a valueFrom names no source that this node agent knows")
}

func isTrue(b *bool) bool { return b != nil && *b }
