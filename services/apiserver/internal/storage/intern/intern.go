// Package intern stores equal parts of cached objects once. The pods of a ReplicaSet have the same
// labels, resources, environment and probes, which are by far most of a pod's memory. It is for
// objects that are never modified.
package intern

import (
	"encoding/binary"
	"reflect"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/garboard/garboard/libs/scheme"
)

// maxParts bounds the number of remembered parts in each of the two generations.
const maxParts = 16 << 10

// Parts remembers recently seen parts of objects. The zero value is ready to use. It is safe for
// concurrent use.
type Parts struct {
	mu sync.Mutex
	// Two generations: when the younger is full it becomes the older one. Parts of the old
	// generation that were not looked up since are forgotten.
	younger, older map[partKey]any
}

// partKey is a part's encoding and its type: the empty values of all types have the same encoding.
type partKey struct {
	of   reflect.Type
	text string
}

// Share replaces parts of obj with equal parts of other objects. The object must have no other
// owner yet, and must not be modified afterwards.
func (p *Parts) Share(obj scheme.Object) {
	if _, loose := obj.(*unstructured.Unstructured); loose {
		return // Its getters return copies.
	}
	obj.SetLabels(stringMap(p, obj.GetLabels()))
	obj.SetAnnotations(stringMap(p, obj.GetAnnotations()))
	obj.SetOwnerReferences(messages(p, obj.GetOwnerReferences()))
	if pod, ok := obj.(*corev1.Pod); ok {
		p.pod(&pod.Spec)
	}
}

func (p *Parts) pod(spec *corev1.PodSpec) {
	spec.NodeSelector = stringMap(p, spec.NodeSelector)
	spec.Tolerations = messages(p, spec.Tolerations)
	spec.Affinity = message(p, spec.Affinity)
	spec.SecurityContext = message(p, spec.SecurityContext)
	spec.TopologySpreadConstraints = messages(p, spec.TopologySpreadConstraints)
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		v.Projected = message(p, v.Projected)
		v.ConfigMap = message(p, v.ConfigMap)
		v.Secret = message(p, v.Secret)
		v.HostPath = message(p, v.HostPath)
		v.EmptyDir = message(p, v.EmptyDir)
		v.DownwardAPI = message(p, v.DownwardAPI)
	}
	for i := range spec.InitContainers {
		p.container(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		p.container(&spec.Containers[i])
	}
}

func (p *Parts) container(c *corev1.Container) {
	resources := c.Resources // a copy: remembering &c.Resources would keep the whole container in memory
	c.Resources = *message(p, &resources)
	c.Command, c.Args = texts(p, c.Command), texts(p, c.Args)
	c.Env, c.EnvFrom, c.Ports = messages(p, c.Env), messages(p, c.EnvFrom), messages(p, c.Ports)
	c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = message(p, c.LivenessProbe), message(p, c.ReadinessProbe), message(p, c.StartupProbe)
	c.Lifecycle, c.SecurityContext = message(p, c.Lifecycle), message(p, c.SecurityContext)
}

// same returns the part remembered under a key, or remembers this one.
func same[T any](p *Parts, key []byte, part T) T {
	of := reflect.TypeFor[T]()
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.younger[partKey{of, string(key)}].(T); ok {
		return known
	}
	known, ok := p.older[partKey{of, string(key)}].(T)
	if !ok {
		known = part
	}
	if p.younger == nil || len(p.younger) >= maxParts {
		p.younger, p.older = map[partKey]any{}, p.younger
	}
	p.younger[partKey{of, string(key)}] = known
	return known
}

type marshaler[T any] interface {
	*T
	MarshalTo(data []byte) (int, error)
	Size() int
}

// message shares the value a pointer points to. Equal values have equal encodings: maps are sorted.
func message[T any, M marshaler[T]](p *Parts, part M) M {
	if part == nil {
		return nil
	}
	key, ok := appendMessage[T](make([]byte, 0, 256), part)
	if !ok {
		return part
	}
	return same(p, key, part)
}

// messages shares a slice of such values.
func messages[T any, M marshaler[T]](p *Parts, part []T) []T {
	if len(part) == 0 {
		return part
	}
	key := make([]byte, 0, 512)
	for i := range part {
		var ok bool
		if key, ok = appendMessage[T](key, M(&part[i])); !ok {
			return part
		}
	}
	return same(p, key, slices.Clip(part))
}

func appendMessage[T any, M marshaler[T]](key []byte, part M) ([]byte, bool) {
	size := part.Size()
	key = binary.AppendUvarint(key, uint64(size))
	at := len(key)
	key = slices.Grow(key, size)[:at+size]
	n, err := part.MarshalTo(key[at:])
	return key, err == nil && n == size
}

func texts(p *Parts, part []string) []string {
	if len(part) == 0 {
		return part
	}
	key := make([]byte, 0, 256)
	for _, text := range part {
		key = appendText(key, text)
	}
	return same(p, key, slices.Clip(part))
}

func stringMap(p *Parts, part map[string]string) map[string]string {
	if len(part) == 0 {
		return part
	}
	names := make([]string, 0, 16)
	for name := range part {
		names = append(names, name)
	}
	slices.Sort(names)
	key := make([]byte, 0, 512)
	for _, name := range names {
		key = appendText(appendText(key, name), part[name])
	}
	return same(p, key, part)
}

func appendText(key []byte, text string) []byte {
	return append(binary.AppendUvarint(key, uint64(len(text))), text...)
}
