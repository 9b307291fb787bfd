package attachdetach

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/podclaims"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// attachmentChanged asks for the reconcile of the volume that an attachment is for. The key of its node sees
// to it that the term begins with the attachments that nothing else leads to.
func (r *reconciler) attachmentChanged(q controller.Queue, old, now *storagev1.VolumeAttachment) {
	a := now
	if a == nil {
		a = old
	}
	r.mu.Lock()
	of, known := r.state.attachments[a.Name]
	adopted := r.state.adopted
	r.mu.Unlock()
	switch {
	case known:
		q.AddKey(volumeKey(of))
	case !adopted:
		q.AddKey(nodeKey(a.Spec.NodeName))
	}
}

// nodeChanged notes which volumes a node has mounted, and asks for the reconciles of the volumes that wait
// for a node.
func (r *reconciler) nodeChanged(q controller.Queue, old, now *corev1.Node) {
	node := now
	if node == nil {
		node = old
	}
	r.mu.Lock()
	n := r.state.node(node.Name)
	before := n.inUse
	n.inUse = map[corev1.UniqueVolumeName]bool{}
	for _, name := range node.Status.VolumesInUse {
		if _, _, ours := split(name); ours { // Others are mounted without being attached here.
			n.inUse[name] = true
		}
	}
	on, unlike := slices.Collect(maps.Keys(n.on)), !maps.Equal(before, n.inUse)
	if now == nil {
		r.state.tidy(node.Name)
	}
	r.mu.Unlock()
	if old == nil || now == nil || isManaged(old) != isManaged(now) {
		q.AddKey(nodeKey(node.Name))
		r.addPodsOf(q, node.Name)
	}
	if old == nil || now == nil || ready(old) != ready(now) || outOfService(old) != outOfService(now) || unlike {
		for _, name := range on {
			q.AddKey(volumeKey(name))
		}
	}
}

func (r *reconciler) addPodsOf(q controller.Queue, node string) {
	pods, err := r.pods.Indexer().ByIndex(nodeIndex, node)
	if err != nil {
		return // The index is added before the first event.
	}
	for _, pod := range pods {
		r.addVolumesOf(q, pod)
	}
}

// podChanged asks for the reconciles of the volumes of a pod that begins or ends to need them.
func (r *reconciler) podChanged(q controller.Queue, old, now *corev1.Pod) {
	if old != nil && now != nil && old.UID == now.UID && needs(old) == needs(now) {
		return
	}
	for _, pod := range []*corev1.Pod{old, now} {
		if pod != nil {
			r.addVolumesOf(q, pod)
		}
	}
}

// needs reports whether a pod needs its volumes on its node.
func needs(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" && !podstate.Stopped(pod) }

// addVolumesOf asks for the reconciles of the volumes that a pod has, and of those that it is known to use.
func (r *reconciler) addVolumesOf(q controller.Queue, pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || len(pod.Spec.Volumes) == 0 {
		return
	}
	names := map[corev1.UniqueVolumeName]bool{}
	for _, name := range inlineNames(pod) {
		names[corev1.UniqueVolumeName(name)] = true
	}
	for _, key := range podclaims.Keys(pod) {
		if c, found := r.claims.Indexer().GetByKey(key); found {
			if v, found := r.volumes.Indexer().GetByKey(c.Spec.VolumeName); found {
				if s := ofVolume(v); s != nil {
					names[s.name] = true
				}
			}
		}
	}
	r.mu.Lock()
	for name := range r.state.users[pod.UID] {
		names[name] = true
	}
	r.mu.Unlock()
	for name := range names {
		q.AddKey(volumeKey(name))
	}
}

// claimChanged asks for the reconcile of the volume of a claim that is bound to another one than before.
func (r *reconciler) claimChanged(q controller.Queue, old, now claim) {
	if now == nil || now.Spec.VolumeName == "" ||
		old != nil && old.Status.Phase == now.Status.Phase && old.Spec.VolumeName == now.Spec.VolumeName {
		return
	}
	if v, found := r.volumes.Indexer().GetByKey(now.Spec.VolumeName); found {
		addSource(q, ofVolume(v))
	}
}

func (r *reconciler) volumeChanged(q controller.Queue, old, now pv) {
	if old != nil && now != nil && equality.Semantic.DeepEqual(old.Spec, now.Spec) {
		return
	}
	for _, v := range []pv{old, now} {
		if v != nil {
			addSource(q, ofVolume(v))
		}
	}
}

func addSource(q controller.Queue, s *source) {
	if s != nil {
		q.AddKey(volumeKey(s.name))
	}
}

// driverChanged asks for the reconciles of the volumes of a driver that begins or ceases to attach volumes.
func (r *reconciler) driverChanged(q controller.Queue, old, now *storagev1.CSIDriver) {
	if attaches(old) == attaches(now) {
		return
	}
	driver := now
	if driver == nil {
		driver = old
	}
	for _, v := range r.volumes.Indexer().List() {
		if s := ofVolume(v); s != nil && s.driver == driver.Name {
			addSource(q, s)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.state.volumes {
		if v.driver == driver.Name {
			q.AddKey(volumeKey(v.name))
		}
	}
}

// attaches reports whether the volumes of a driver are attached. Those of an unknown driver are.
func attaches(driver *storagev1.CSIDriver) bool {
	return driver == nil || driver.Spec.AttachRequired == nil || *driver.Spec.AttachRequired
}

const nodeIndex = "node"

// podsByNode returns the watch of pods through the index of their nodes.
func podsByNode(pods informer.SharedInformer[*corev1.Pod]) controller.Watch {
	return controller.Indexed(pods, nodeIndex, func(pod *corev1.Pod) ([]string, error) {
		if pod.Spec.NodeName == "" {
			return nil, nil
		}
		return []string{pod.Spec.NodeName}, nil
	})
}

func isManaged(node *corev1.Node) bool {
	_, has := node.Annotations[managed]
	return has
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func outOfService(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}
