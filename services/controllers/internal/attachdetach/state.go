package attachdetach

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/controllers/internal/controller"
)

// state is what is known in one term. The reconciler's mutex guards it, except that only the reconcile of a
// volume writes what is in it.
type state struct {
	q       controller.Queue
	volumes map[corev1.UniqueVolumeName]*volume
	nodes   map[string]*node
	// attachments are the volumes by the names of their VolumeAttachments.
	attachments map[string]corev1.UniqueVolumeName
	// users are the volumes of pods that need them.
	users map[types.UID]map[corev1.UniqueVolumeName]bool
	// adopted is set once the term knows what the one before left.
	adopted bool
}

func newState(q controller.Queue) *state {
	return &state{
		q: q, volumes: map[corev1.UniqueVolumeName]*volume{}, nodes: map[string]*node{},
		attachments: map[string]corev1.UniqueVolumeName{}, users: map[types.UID]map[corev1.UniqueVolumeName]bool{},
	}
}

// volume is what is known of a volume.
type volume struct {
	name           corev1.UniqueVolumeName
	driver, handle string
	// wanted is where pods need the volume, and nodes where it is, may be, or is about to be attached.
	wanted map[string]*wish
	nodes  map[string]*attachment
}

// wish says that pods on a node need a volume.
type wish struct {
	source *source
	pods   map[types.UID]*corev1.Pod
	// refused means that Events have told that another node has the volume.
	refused bool
}

// Whether a volume is attached to a node.
const (
	pending   = iota // an attach has begun for the first time
	uncertain        // an attach or a detach failed, or was left by another term
	attached
)

// attachment is a volume on a node.
type attachment struct {
	node string
	// id is the name of the VolumeAttachment.
	id    string
	state int
	// verify asks for a comparison with the VolumeAttachment.
	verify bool
	// leaving means that it is detached as soon as its node's status lacks it.
	leaving bool
	// unneeded is since when no pod needs it; zero if one does.
	unneeded time.Time
	// source is nil if the volume is known by its name only.
	source    *source
	operation operation
}

// operation is what was asked last of the attacher.
type operation struct {
	kind    string
	running bool
	// deleted means that the VolumeAttachment was deleted.
	deleted bool
	began   time.Time
	// pods are those whose Events tell of an attach.
	pods []*corev1.Pod
	// retry is when a failed operation may begin again, and delay what it waited.
	retry time.Time
	delay time.Duration
}

// Kinds of operations, as metrics name them.
const attaching, detaching = "volume_attach", "volume_detach"

// The delay of an operation that failed doubles from the first to the longest.
const firstDelay, longestDelay = 500 * time.Millisecond, 2*time.Minute + 2*time.Second

// begin starts an operation. Those of another kind have no bearing on its delay.
func (o *operation) begin(kind string, pods []*corev1.Pod) {
	delay := o.delay
	if o.kind != kind {
		delay = 0
	}
	*o = operation{kind: kind, running: true, began: time.Now(), pods: pods, delay: delay}
}

// wait returns how long an operation of a kind must wait after a failure.
func (o *operation) wait(kind string) time.Duration {
	if o.kind != kind {
		return 0
	}
	return max(time.Until(o.retry), 0)
}

// fail ends an operation that failed.
func (o *operation) fail() {
	o.running = false
	o.delay = min(max(2*o.delay, firstDelay), longestDelay)
	o.retry = time.Now().Add(o.delay)
}

// busy reports whether an operation runs that excludes another one for a node.
func (v *volume) busy(node string, exclusive bool) bool {
	for _, a := range v.nodes {
		if a.operation.running && (exclusive || a.node == node) {
			return true
		}
	}
	return false
}

// leaves reports whether another node is about to be left.
func (v *volume) leaves(but string) bool {
	for _, a := range v.nodes {
		if a.leaving && a.node != but {
			return true
		}
	}
	return false
}

// sorted returns the attachments by their nodes.
func (v *volume) sorted() []*attachment {
	nodes := slices.Sorted(maps.Keys(v.nodes))
	all := make([]*attachment, len(nodes))
	for i, node := range nodes {
		all[i] = v.nodes[node]
	}
	return all
}

// node is what is known of a node.
type node struct {
	// on are the volumes that have an attachment to it.
	on map[corev1.UniqueVolumeName]bool
	// inUse are those that it says it has mounted, and new attachments until it speaks again.
	inUse map[corev1.UniqueVolumeName]bool
	// report are the volumes that its status shall list, and written those that the last write listed.
	report, written map[corev1.UniqueVolumeName]bool
}

func (s *state) node(name string) *node {
	n := s.nodes[name]
	if n == nil {
		n = &node{
			on: map[corev1.UniqueVolumeName]bool{}, inUse: map[corev1.UniqueVolumeName]bool{},
			report: map[corev1.UniqueVolumeName]bool{}, written: map[corev1.UniqueVolumeName]bool{},
		}
		s.nodes[name] = n
	}
	return n
}

// tidy forgets a node that does not exist and has no attachments.
func (s *state) tidy(name string) {
	if n := s.nodes[name]; n != nil && len(n.on) == 0 {
		delete(s.nodes, name)
	}
}

func (s *state) volume(name corev1.UniqueVolumeName) *volume {
	v := s.volumes[name]
	if v == nil {
		v = &volume{name: name, wanted: map[string]*wish{}, nodes: map[string]*attachment{}}
		v.driver, v.handle, _ = split(name)
		s.volumes[name] = v
	}
	return v
}

// attachment returns that of a volume to a node, which is made if there is none.
func (s *state) attachment(v *volume, to string, first int) *attachment {
	a := v.nodes[to]
	if a == nil {
		a = &attachment{node: to, id: attachmentName(v.driver, v.handle, to), state: first}
		v.nodes[to] = a
		n := s.node(to)
		n.on[v.name], n.inUse[v.name] = true, true
		s.attachments[a.id] = v.name
	}
	return a
}

// drop forgets an attachment that is no more.
func (s *state) drop(v *volume, a *attachment) {
	delete(v.nodes, a.node)
	delete(s.attachments, a.id)
	if n := s.nodes[a.node]; n != nil {
		delete(n.on, v.name)
		s.unreport(v, a)
	}
}

// reportOn lists a volume in its node's status.
func (s *state) reportOn(v *volume, a *attachment) {
	if n := s.node(a.node); !n.report[v.name] {
		n.report[v.name] = true
		s.q.AddKey(nodeKey(a.node))
	}
}

// unreport takes a volume from its node's status, and reports whether that is written.
func (s *state) unreport(v *volume, a *attachment) (written bool) {
	n := s.node(a.node)
	if n.report[v.name] || n.written[v.name] {
		delete(n.report, v.name)
		s.q.AddKey(nodeKey(a.node))
	}
	return !n.written[v.name]
}

// adopt begins the term with what the one before left.
func (r *reconciler) adopt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state
	if s.adopted {
		return
	}
	s.adopted = true
	for _, node := range r.nodes.In("") {
		for _, listed := range node.Status.VolumesAttached {
			if _, _, ours := split(listed.Name); !ours {
				continue
			}
			n := s.node(node.Name)
			v := s.volume(listed.Name)
			mounted := n.inUse[v.name]
			s.attachment(v, node.Name, attached)
			n.inUse[v.name] = mounted // The node's status is whole.
			n.report[v.name], n.written[v.name] = true, true
		}
	}
	for _, a := range r.attachments.In("") {
		if left := r.sourceOf(a); left != nil && attachmentName(left.driver, left.handle, a.Spec.NodeName) == a.Name {
			v := s.volume(left.name)
			to := s.attachment(v, a.Spec.NodeName, uncertain)
			to.source = left
		}
	}
	for name := range s.volumes {
		s.q.AddKey(volumeKey(name))
	}
}

// sourceOf returns the volume of a VolumeAttachment; nil if it is unknown.
func (r *reconciler) sourceOf(a *storagev1.VolumeAttachment) *source {
	if spec := a.Spec.Source.InlineVolumeSpec; spec != nil {
		return newSource(&corev1.PersistentVolume{Spec: *spec}, true, true)
	}
	if a.Spec.Source.PersistentVolumeName == nil {
		return nil
	}
	v, found := r.volumes.Indexer().GetByKey(*a.Spec.Source.PersistentVolumeName)
	if !found {
		return nil
	}
	return ofVolume(v)
}
