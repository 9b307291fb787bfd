package horizontalpodautoscaler

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// autoscaler names an autoscaler in messages.
type autoscaler struct{ Name, Namespace string }

// selectors are the selectors of autoscalers' targets, as they were last seen.
type selectors struct {
	mu          sync.Mutex
	byNamespace map[string]map[string]labels.Selector // by the autoscaler's name
}

// put keeps the selector of an autoscaler's target.
func (s *selectors) put(namespace, name string, selector labels.Selector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byNamespace == nil {
		s.byNamespace = map[string]map[string]labels.Selector{}
	}
	if s.byNamespace[namespace] == nil {
		s.byNamespace[namespace] = map[string]labels.Selector{}
	}
	s.byNamespace[namespace][name] = selector
}

// remove forgets an autoscaler.
func (s *selectors) remove(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.byNamespace[namespace], name); len(s.byNamespace[namespace]) == 0 {
		delete(s.byNamespace, namespace)
	}
}

func (s *selectors) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byNamespace = nil
}

// selecting returns the first two autoscalers of a namespace, by their names, whose targets select any of
// some pods.
func (s *selectors) selecting(namespace string, pods []*corev1.Pod) []autoscaler {
	distinct := map[string]labels.Set{} // The pods of a workload have mostly the same labels.
	for _, pod := range pods {
		distinct[labels.Set(pod.Labels).String()] = pod.Labels
	}
	s.mu.Lock()
	known := maps.Clone(s.byNamespace[namespace])
	s.mu.Unlock()
	var found []autoscaler
	for _, name := range slices.Sorted(maps.Keys(known)) {
		for _, set := range distinct {
			if known[name].Matches(set) {
				found = append(found, autoscaler{name, namespace})
				break
			}
		}
		if len(found) == 2 {
			break
		}
	}
	return found
}
