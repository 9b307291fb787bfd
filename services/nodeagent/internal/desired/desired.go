// Package desired holds the pods that the API wants on this node.
package desired

import (
	"cmp"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// Store holds the wanted pods by UID. Any goroutine may use it. Pods that it returns are shared: do
// not modify them.
type Store struct {
	mu   sync.RWMutex
	pods map[string]*corev1.Pod
}

// New returns an empty store.
func New() *Store { return &Store{pods: map[string]*corev1.Pod{}} }

// Set adds a pod or replaces its older state.
func (s *Store) Set(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[string(pod.UID)] = pod
}

// Delete removes a pod.
func (s *Store) Delete(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, uid)
}

// Get returns a pod; nil if it is not wanted.
func (s *Store) Get(uid string) *corev1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.pods[uid]
}

// Named returns the pod with this namespace and name; nil if there is none. If two pods have the
// same name, it returns the younger.
func (s *Store) Named(namespace, name string) *corev1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var found *corev1.Pod
	for _, pod := range s.pods {
		if pod.Namespace == namespace && pod.Name == name &&
			(found == nil || found.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			found = pod
		}
	}
	return found
}

// List returns all pods, oldest first.
func (s *Store) List() []*corev1.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]*corev1.Pod, 0, len(s.pods))
	for _, pod := range s.pods {
		list = append(list, pod)
	}
	slices.SortFunc(list, older)
	return list
}

// older orders pods by creation time, then by UID.
func older(a, b *corev1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
}
