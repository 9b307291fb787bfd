// Package clusterview maintains what placement looks at: the nodes and the pods on them. These
// include pods that were placed a moment ago and that the API does not show yet (assumed).
//
// A Cache combines what the informers report and what the scheduler assumes. Its Snapshot never
// changes, so each pod is placed by one consistent state of the cluster. Only nodes that have
// changed since the last snapshot are rebuilt.
package clusterview

import (
	"cmp"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/hostports"
)

// Node is a node with its pods. It is shared and never changes.
type Node struct {
	*corev1.Node
	// Pods are the pods that take room on the node.
	Pods []*corev1.Pod
	// Allocatable is what the node has for pods, Requested what they take, and NonZero what they
	// take as counted for scoring.
	Allocatable, Requested, NonZero Resources
	// Ports are the host ports that are taken.
	Ports []hostports.Port
}

// Finished reports whether a pod has ended, so that it no longer takes any room.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Ready returns the status of a node's Ready condition; empty if it has none.
func Ready(node *corev1.Node) corev1.ConditionStatus {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return node.Status.Conditions[i].Status
		}
	}
	return ""
}

// Cache is the state behind snapshots. It is safe for concurrent use.
type Cache struct {
	mu    sync.Mutex
	nodes map[string]*entry
	// placed are the pods that take room, by UID.
	placed map[types.UID]*placed
}

// entry is what is known under a node's name: a pod may be seen before its node.
type entry struct {
	node *corev1.Node
	pods map[types.UID]sized
	// made is the node of the last snapshot; nil when something has changed since.
	made *Node
}

type placed struct {
	node string
	// assumed says that the API does not show the pod on its node yet.
	assumed bool
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{nodes: map[string]*entry{}, placed: map[types.UID]*placed{}}
}

func (c *Cache) entry(name string) *entry {
	e := c.nodes[name]
	if e == nil {
		e = &entry{pods: map[types.UID]sized{}}
		c.nodes[name] = e
	}
	return e
}

// SetNode records a node's present state.
func (c *Cache) SetNode(node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entry(node.Name)
	e.node, e.made = node, nil
}

// RemoveNode forgets a node. Its pods stay for as long as the API shows them.
func (c *Cache) RemoveNode(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.nodes[name]; e != nil {
		e.node, e.made = nil, nil
		c.tidy(name, e)
	}
}

// SetPod records the present state of a pod that the API shows on a node. It confirms an assumed
// pod, even if the API shows it on another node.
func (c *Cache) SetPod(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(pod.UID)
	if !Finished(pod) {
		c.put(pod, pod.Spec.NodeName, false)
	}
}

// RemovePod forgets a pod, whether it is assumed or confirmed.
func (c *Cache) RemovePod(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(uid)
}

// Assume puts a pod on a node before the API shows it there. It returns false, and does nothing, if
// the pod is on a node already.
func (c *Cache) Assume(pod *corev1.Pod, node string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.placed[pod.UID] != nil {
		return false
	}
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = node
	c.put(assumed, node, true)
	return true
}

// Forget undoes Assume when the binding has failed. A pod that the API has shown on a node since
// stays there.
func (c *Cache) Forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.placed[uid]; p != nil && p.assumed {
		c.remove(uid)
	}
}

// Placed reports whether a pod is on a node, assumed or confirmed.
func (c *Cache) Placed(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.placed[uid] != nil
}

func (c *Cache) put(pod *corev1.Pod, node string, assumed bool) {
	e := c.entry(node)
	e.pods[pod.UID], e.made = newSized(pod), nil
	c.placed[pod.UID] = &placed{node: node, assumed: assumed}
}

func (c *Cache) remove(uid types.UID) {
	p := c.placed[uid]
	if p == nil {
		return
	}
	delete(c.placed, uid)
	e := c.nodes[p.node]
	delete(e.pods, uid)
	e.made = nil
	c.tidy(p.node, e)
}

// tidy drops an empty entry.
func (c *Cache) tidy(name string, e *entry) {
	if e.node == nil && len(e.pods) == 0 {
		delete(c.nodes, name)
	}
}

// Snapshot returns all nodes as they are now, sorted by name.
func (c *Cache) Snapshot() []*Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	nodes := make([]*Node, 0, len(c.nodes))
	for _, e := range c.nodes {
		if e.node == nil {
			continue
		}
		if e.made == nil {
			e.made = newNode(e.node, e.pods)
		}
		nodes = append(nodes, e.made)
	}
	slices.SortFunc(nodes, func(a, b *Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}

// NewNode sums up a node and the pods on it.
func NewNode(node *corev1.Node, pods map[types.UID]*corev1.Pod) *Node {
	all := make(map[types.UID]sized, len(pods))
	for uid, pod := range pods {
		all[uid] = newSized(pod)
	}
	return newNode(node, all)
}

func newNode(node *corev1.Node, pods map[types.UID]sized) *Node {
	n := &Node{
		Node: node, Pods: make([]*corev1.Pod, 0, len(pods)),
		Allocatable: resourcesOf(node.Status.Allocatable), Requested: Resources{}, NonZero: Resources{},
	}
	for _, pod := range pods {
		n.Pods = append(n.Pods, pod.Pod)
		n.Requested.Add(pod.requested)
		n.NonZero.Add(pod.nonZero)
		n.Ports = append(n.Ports, pod.ports...)
	}
	return n
}
