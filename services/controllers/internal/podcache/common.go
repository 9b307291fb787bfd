package podcache

import (
	"maps"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/lru"
)

const (
	// remembered is how many specs are known, and how many maps. What is forgotten is only no longer shared.
	remembered = 1024
	// largest is the size in bytes up to which something is shared. With remembered it bounds what is kept of pods
	// that are gone.
	largest = 4096
)

// common is what pods have in common.
type common struct{ specs, maps *lru.Cache }

func newCommon() *common { return &common{specs: lru.New(remembered), maps: lru.New(remembered)} }

// share replaces what a pod has in common with earlier ones. It changes no content.
func (c *common) share(pod *corev1.Pod) {
	c.shareSpec(&pod.Spec)
	pod.Labels, pod.Annotations = c.shareMap(pod.Labels), c.shareMap(pod.Annotations)
	one(&pod.Namespace, &pod.GenerateName)
	for i := range pod.OwnerReferences {
		owner := &pod.OwnerReferences[i]
		one(&owner.APIVersion, &owner.Kind, &owner.Name)
		one(&owner.UID)
	}
	status := &pod.Status
	one(&status.HostIP, &status.Reason)
	one(&status.Phase)
	one(&status.QOSClass)
	for i := range status.HostIPs {
		one(&status.HostIPs[i].IP)
	}
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		one(&condition.Type)
		one(&condition.Status)
		one(&condition.Reason, &condition.Message)
	}
	for _, statuses := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range statuses {
			one(&statuses[i].Name)
		}
	}
}

// shareSpec replaces all of a spec but what most pods have alone.
func (c *common) shareSpec(spec *corev1.PodSpec) {
	own := *spec
	spec.NodeName, spec.Hostname, spec.Volumes, spec.Affinity = "", "", nil, nil
	if text, err := spec.Marshal(); err == nil && len(text) <= largest {
		known, found := c.specs.Get(string(text))
		if !found {
			kept := *spec
			known = &kept
			c.specs.Add(string(text), known)
		}
		*spec = *known.(*corev1.PodSpec)
	}
	spec.NodeName, spec.Hostname, spec.Volumes, spec.Affinity = own.NodeName, own.Hostname, own.Volumes, own.Affinity
	one(&spec.NodeName)
}

// shareMap returns an equal map, which other pods may have too.
func (c *common) shareMap(of map[string]string) map[string]string {
	if len(of) == 0 {
		return nil
	}
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(of)) {
		text.WriteString(key + "\x00" + of[key] + "\x00")
		if text.Len() > largest {
			return of
		}
	}
	if known, found := c.maps.Get(text.String()); found && maps.Equal(known.(map[string]string), of) {
		return known.(map[string]string)
	}
	c.maps.Add(text.String(), of)
	return of
}

// one replaces strings by those that all equal ones share.
func one[T ~string](texts ...*T) {
	for _, text := range texts {
		if *text != "" {
			*text = T(unique.Make(string(*text)).Value())
		}
	}
}
