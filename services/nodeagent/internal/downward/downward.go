// Package downward implements the downward API: the values of fieldRef and resourceFieldRef in
// environment variables and downwardAPI volumes.
package downward

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Field returns the value of a field of pod: metadata.name, namespace, uid, labels and annotations
// (whole or one key in brackets), spec.nodeName, spec.serviceAccountName, status.hostIP(s) and
// status.podIP(s). The pod's status must hold its addresses.
func Field(pod *corev1.Pod, path string) (string, error) {
	if field, key, ok := subscript(path); ok {
		switch field {
		case "metadata.labels":
			return pod.Labels[key], nil
		case "metadata.annotations":
			return pod.Annotations[key], nil
		}
		return "", fmt.Errorf("fieldPath %q does not support subscript", path)
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return lines(pod.Labels), nil
	case "metadata.annotations":
		return lines(pod.Annotations), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return pod.Status.HostIP, nil
	case "status.hostIPs":
		ips := make([]string, 0, len(pod.Status.HostIPs))
		for _, ip := range pod.Status.HostIPs {
			ips = append(ips, ip.IP)
		}
		return strings.Join(ips, ","), nil
	case "status.podIP":
		return pod.Status.PodIP, nil
	case "status.podIPs":
		ips := make([]string, 0, len(pod.Status.PodIPs))
		for _, ip := range pod.Status.PodIPs {
			ips = append(ips, ip.IP)
		}
		return strings.Join(ips, ","), nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %v", path)
}

// subscript splits metadata.labels['key'] into its field and key.
func subscript(path string) (field, key string, ok bool) {
	rest, ok := strings.CutSuffix(path, "']")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "['")
}

// lines formats a map as in downwardAPI files: key="value", sorted by key.
func lines(m map[string]string) string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	var b strings.Builder
	for i, key := range keys {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(key)
		b.WriteByte('=')
		b.WriteString(strconv.Quote(m[key]))
	}
	return b.String()
}

// Resource returns the value of a resourceFieldRef in units of its divisor, rounded up. It uses
// container when the selector names none; only that one may be ephemeral. A limit that is not set is the node's allocatable amount.
func Resource(pod *corev1.Pod, container string, selector *corev1.ResourceFieldSelector, allocatable corev1.ResourceList) (string, error) {
	if selector.ContainerName != "" {
		container = selector.ContainerName
	}
	c := find(pod, container)
	for i := range pod.Spec.EphemeralContainers {
		if own := &pod.Spec.EphemeralContainers[i]; selector.ContainerName == "" && own.Name == container {
			c = (*corev1.Container)(&own.EphemeralContainerCommon)
		}
	}
	if c == nil {
		return "", fmt.Errorf("container %s not found", container)
	}
	list, name, ok := strings.Cut(selector.Resource, ".")
	if !ok || (list != "limits" && list != "requests") {
		return "", fmt.Errorf("unsupported container resource : %v", selector.Resource)
	}
	switch {
	case name == "cpu", name == "memory", name == "ephemeral-storage", strings.HasPrefix(name, "hugepages-"):
	default:
		return "", fmt.Errorf("unsupported container resource : %v", selector.Resource)
	}
	amount := quantity(c, list, corev1.ResourceName(name), allocatable)
	if name == "cpu" {
		divisor := selector.Divisor.MilliValue()
		if divisor == 0 {
			divisor = 1000
		}
		return ratio(amount.MilliValue(), divisor), nil
	}
	divisor := selector.Divisor.Value()
	if divisor == 0 {
		divisor = 1
	}
	return ratio(amount.Value(), divisor), nil
}

func quantity(c *corev1.Container, list string, name corev1.ResourceName, allocatable corev1.ResourceList) resource.Quantity {
	limit, limited := c.Resources.Limits[name]
	if list == "requests" {
		if request, ok := c.Resources.Requests[name]; ok {
			return request
		}
		// As in the apiserver, a request that is not set defaults to the limit.
		return limit
	}
	// Huge pages are never overcommitted, so no limit means none.
	if (!limited || limit.IsZero()) && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
		return allocatable[name]
	}
	return limit
}

func ratio(amount, divisor int64) string {
	return strconv.FormatInt(int64(math.Ceil(float64(amount)/float64(divisor))), 10)
}

func find(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
