// Package clusterview keeps what placement looks at: the nodes with the pods that are on them,
// those included that were placed a moment ago and that the API does not show yet (assumed).
//
// A Cache takes what the informers say and what the scheduler assumes. Its Snapshot does not
// change afterwards, so that one pod is placed by one picture of the cluster; only nodes that
// changed since the last one are made anew.
package clusterview

import (
	"cmp"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Node is a node with its pods. It is shared and never changes.
type Node struct {
	*corev1.Node
	// Pods are the pods that take room on the node.
	Pods []*corev1.Pod
	// Allocatable is what the node has for pods, Requested what they take, and NonZero what
	// they take as scoring counts it.
	Allocatable, Requested, NonZero Resources
	// Ports are the host ports that are taken.
	Ports []HostPort
}

// HostPort is a port that a container takes of its node.
type HostPort struct {
	// IP is empty for all addresses.
	IP       string
	Protocol corev1.Protocol
	Port     int32
}

// Conflicts says whether both cannot be taken at once.
func (p HostPort) Conflicts(other HostPort) bool {
	return p.Port == other.Port && p.Protocol == other.Protocol &&
		(p.IP == other.IP || p.IP == "" || other.IP == "")
}

// HostPorts are the ports that a pod takes of its node.
func HostPorts(pod *corev1.Pod) []HostPort {
	var ports []HostPort
	add := func(containers []corev1.Container, sidecarsOnly bool) {
		for i := range containers {
			c := &containers[i]
			if sidecarsOnly && (c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways) {
				continue
			}
			for _, port := range c.Ports {
				if port.HostPort == 0 {
					continue
				}
				p := HostPort{IP: port.HostIP, Protocol: port.Protocol, Port: port.HostPort}
				if p.IP == "0.0.0.0" || p.IP == "::" {
					p.IP = ""
				}
				if p.Protocol == "" {
					p.Protocol = corev1.ProtocolTCP
				}
				ports = append(ports, p)
			}
		}
	}
	add(pod.Spec.Containers, false)
	add(pod.Spec.InitContainers, true)
	return ports
}

// Finished says whether a pod has ended, so that it takes no room any more.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Ready is what is said of a node's readiness; empty when nothing is.
func Ready(node *corev1.Node) corev1.ConditionStatus {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return node.Status.Conditions[i].Status
		}
	}
	return ""
}

// Cache is the state behind snapshots. It may be used from any goroutine.
type Cache struct {
	mu    sync.Mutex
	nodes map[string]*entry
	// placed are the pods that take room, by uid.
	placed map[types.UID]*placed
}

// entry is what is known under a node's name: a pod may be seen before its node.
type entry struct {
	node *corev1.Node
	pods map[types.UID]sized
	// made is the node as last shown; nil when something has changed since.
	made *Node
}

type placed struct {
	node string
	// assumed says that the API does not show the pod on its node yet.
	assumed bool
}

// NewCache makes an empty cache.
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

// SetNode takes a node's present state.
func (c *Cache) SetNode(node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entry(node.Name)
	e.node, e.made = node, nil
}

// RemoveNode forgets a node. Its pods are kept, for as long as the API shows them.
func (c *Cache) RemoveNode(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.nodes[name]; e != nil {
		e.node, e.made = nil, nil
		c.tidy(name, e)
	}
}

// SetPod takes the present state of a pod that the API shows on a node. One that was assumed
// is confirmed, also when the API shows it on another node.
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

// Assume puts a pod on a node before the API shows it there. It says false, and does
// nothing, if the pod is on a node already.
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

// Forget takes back Assume, when the binding has failed. A pod that the API has shown on a
// node since stays there.
func (c *Cache) Forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.placed[uid]; p != nil && p.assumed {
		c.remove(uid)
	}
}

// Placed says whether a pod is on a node, assumed or confirmed.
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

// tidy drops an entry that holds nothing.
func (c *Cache) tidy(name string, e *entry) {
	if e.node == nil && len(e.pods) == 0 {
		delete(c.nodes, name)
	}
}

// Snapshot gives all nodes as they are now, in the order of their names.
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
