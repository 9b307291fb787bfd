package serviceendpoints

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/informer"
)

const (
	// byLabel is the index of pods by each of their labels, bySelector that of Services by the first label
	// of their selector.
	byLabel    = "label"
	bySelector = "selector"
)

// unselective reports whether a label says which version of a workload a pod belongs to. No Service is
// expected to select by such a label alone, so that pods need not be found by it.
func unselective(key string) bool {
	switch key {
	case appsv1.DefaultDeploymentUniqueLabelKey, appsv1.ControllerRevisionHashLabelKey, appsv1.DeprecatedTemplateGeneration:
		return true
	}
	return false
}

// labelled is the value of both indices for a label.
func labelled(namespace, key, value string) string { return namespace + "/" + key + "=" + value }

// labelsOf returns the values under which a pod is found.
func labelsOf(pod *corev1.Pod) ([]string, error) {
	values := make([]string, 0, len(pod.Labels))
	for key, value := range pod.Labels {
		if !unselective(key) {
			values = append(values, labelled(pod.Namespace, key, value))
		}
	}
	return values, nil
}

// selectorOf returns the value under which all pods of a Service are found; false if there is none.
func selectorOf(svc *corev1.Service) (string, bool) {
	first, found := "", false
	for key := range svc.Spec.Selector {
		if !unselective(key) && (!found || key < first) {
			first, found = key, true
		}
	}
	return labelled(svc.Namespace, first, svc.Spec.Selector[first]), found
}

// servicesOf returns the value under which a Service is found: the label, or else its namespace.
func servicesOf(svc *corev1.Service) ([]string, error) {
	if !Selecting(svc) {
		return nil, nil
	}
	if value, found := selectorOf(svc); found {
		return []string{value}, nil
	}
	return []string{svc.Namespace}, nil
}

// candidates calls f once for each Service that may select a pod in one of its states, of which some may be
// nil.
func candidates(services informer.Indexer[*corev1.Service], f func(svc *corev1.Service), states ...*corev1.Pod) {
	values := map[string]bool{}
	for _, pod := range states {
		if pod == nil {
			continue
		}
		values[pod.Namespace] = true
		for key, value := range pod.Labels {
			if !unselective(key) {
				values[labelled(pod.Namespace, key, value)] = true
			}
		}
	}
	for value := range values {
		found, err := services.ByIndex(bySelector, value)
		if err != nil {
			return // Watches has added the index.
		}
		for _, svc := range found {
			f(svc)
		}
	}
}
