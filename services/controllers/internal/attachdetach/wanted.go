package attachdetach

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/services/controllers/internal/podclaims"
)

// wanted returns the nodes whose pods need a volume. What a pod once needed it needs until it stops, also if
// the claim or the PersistentVolume changes meanwhile.
func (r *reconciler) wanted(v *volume) (map[string]*wish, error) {
	wanted := map[string]*wish{}
	if driver, _ := r.drivers.Indexer().GetByKey(v.driver); !attaches(driver) {
		return wanted, nil
	}
	for node, before := range v.wanted {
		for uid, pod := range before.pods {
			now, found := r.pods.Indexer().GetByKey(informer.Key(pod))
			if found && now.UID == uid && needs(now) {
				add(wanted, node, before.source, now)
			}
		}
	}
	users, err := r.users(v.name)
	if err != nil {
		return nil, err
	}
	for _, u := range users {
		node := u.pod.Spec.NodeName
		if !needs(u.pod) {
			continue
		}
		if _, known := v.wanted[node]; !known {
			if n, found := r.nodes.Indexer().GetByKey(node); !found || !isManaged(n) {
				continue
			}
		}
		add(wanted, node, u.source, u.pod)
	}
	for node, w := range wanted {
		before := v.wanted[node]
		w.refused = before != nil && before.refused
	}
	return wanted, nil
}

func add(wanted map[string]*wish, node string, from *source, pod *corev1.Pod) {
	w := wanted[node]
	if w == nil {
		w = &wish{source: from, pods: map[types.UID]*corev1.Pod{}}
		wanted[node] = w
	}
	w.pods[pod.UID] = pod
}

// user is a pod that has a volume.
type user struct {
	pod    *corev1.Pod
	source *source
}

// users returns the pods that have a volume, through bound claims or by themselves.
func (r *reconciler) users(name corev1.UniqueVolumeName) ([]user, error) {
	var users []user
	volumes, err := r.volumes.Indexer().ByIndex(byName, string(name))
	if err != nil {
		return nil, fmt.Errorf("finding the PersistentVolumes of volume %s: %w", name, err)
	}
	for _, v := range volumes {
		ref := v.Spec.ClaimRef
		if ref == nil {
			continue
		}
		c, found := r.claims.Indexer().GetByKey(informer.KeyOf(ref.Namespace, ref.Name))
		if !found || c.UID != ref.UID || c.Status.Phase != corev1.ClaimBound || c.Spec.VolumeName != v.Name {
			continue
		}
		pods, err := podclaims.Users(r.pods, c)
		if err != nil {
			return nil, err
		}
		for _, pod := range pods {
			if podclaims.Names(pod, c) || podclaims.Owns(pod, c) {
				users = append(users, user{pod, ofVolume(v)})
			}
		}
	}
	pods, err := r.pods.Indexer().ByIndex(inlineByName, string(name))
	if err != nil {
		return nil, fmt.Errorf("finding the pods of inline volume %s: %w", name, err)
	}
	for _, pod := range pods {
		for i := range pod.Spec.Volumes {
			if s := ofInline(&pod.Spec.Volumes[i], pod.Namespace); s != nil && s.name == name {
				users = append(users, user{pod, s})
			}
		}
	}
	return users, nil
}

// want replaces what is known of the pods that need a volume.
func (s *state) want(v *volume, wanted map[string]*wish) {
	for _, w := range v.wanted {
		for uid := range w.pods {
			delete(s.users[uid], v.name)
			if len(s.users[uid]) == 0 {
				delete(s.users, uid)
			}
		}
	}
	v.wanted = wanted
	for node, w := range wanted {
		for uid := range w.pods {
			if s.users[uid] == nil {
				s.users[uid] = map[corev1.UniqueVolumeName]bool{}
			}
			s.users[uid][v.name] = true
		}
		if a := v.nodes[node]; a != nil {
			a.source = w.source
		}
	}
}
