package cycle_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func claim(name, volume string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if volume != "" {
		c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
		c.Spec.VolumeName = volume
	}
	return c
}

// claiming returns a pod that uses a claim.
func claiming(name, claim string) *corev1.Pod {
	p := pod(name, "1")
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	return p
}

// last returns the latest event of a pod, and how many it has.
func (p *plane) last(name string) (event string, count int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		var kind, reason, of string
		if _, err := fmt.Sscanf(e, "%s %s %s", &kind, &reason, &of); err == nil && of == name+":" {
			event, count = e, count+1
		}
	}
	return event, count
}

// TestPodFollowsItsClaim checks that a pod is retried at each step of its claim, and not for other
// claims.
func TestPodFollowsItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, node("a", "4"), node("b", "4"))
		p.create(t, claiming("p", "data"))
		says := func(what string) {
			t.Helper()
			time.Sleep(20 * time.Second) // Less than unschedulableLimit, and more than the back-off.
			const help = " preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
			if got, _ := p.last("p"); got != "Warning FailedScheduling p: 0/2 nodes are available: "+what+"."+help {
				t.Errorf("got event %q, want %s", got, what)
			}
		}
		says(`persistentvolumeclaim "data" not found`)
		_, before := p.last("p")
		p.api.Load(claim("other", ""))
		time.Sleep(20 * time.Second)
		if _, after := p.last("p"); after != before {
			t.Errorf("another claim caused a retry: got %d events, then %d", before, after)
		}

		late := claim("data", "")
		class := "late"
		late.Spec.StorageClassName = &class
		late.UID = "claim"
		p.api.Load(late)
		says("pod has unbound immediate PersistentVolumeClaims")
		mode := storagev1.VolumeBindingWaitForFirstConsumer
		p.api.Load(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, VolumeBindingMode: &mode})
		says("2 node(s) didn't find available persistent volumes to bind")
		done := claim("data", "disk")
		done.UID = "claim"
		p.api.Load(done)
		says(`persistentvolume "disk" not found`)

		p.api.Load(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: corev1.PersistentVolumeSpec{
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}}},
			}}}},
		}})
		time.Sleep(20 * time.Second)
		p.on(t, "p", "b")
	})
}

// TestClaimForOnePod checks that a ReadWriteOncePod claim is free again when its pod is gone.
func TestClaimForOnePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		once := claim("data", "disk")
		once.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		p := start(t, node("a", "4"), once, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}})
		p.create(t, claiming("one", "data"))
		settle()
		p.create(t, claiming("two", "data"))
		settle()
		p.on(t, "one", "a")
		p.on(t, "two", "")
		if err := p.pods.Delete(t.Context(), "default", "one", *metav1.NewDeleteOptions(0)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		p.on(t, "two", "a")
	})
}

// TestRoomOfAResizeIsUsed checks that the room that a shrinking pod frees is used once the node has
// released it.
func TestRoomOfAResizeIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shrinking := pod("shrinking", "1")
		shrinking.Spec.NodeName = "a"
		shrinking.UID = "shrinking"
		status := corev1.ContainerStatus{Name: "c", AllocatedResources: pod("was", "4").Spec.Containers[0].Resources.Requests}
		shrinking.Status.ContainerStatuses = []corev1.ContainerStatus{status}
		p := start(t, node("a", "4"), shrinking)
		p.create(t, pod("next", "3"))
		time.Sleep(20 * time.Second)
		p.on(t, "next", "")
		shrunk := p.get(t, "shrinking")
		shrunk.Status.ContainerStatuses = slices.Clone(shrunk.Status.ContainerStatuses)
		shrunk.Status.ContainerStatuses[0].AllocatedResources = shrunk.Spec.Containers[0].Resources.Requests
		if _, err := p.pods.UpdateStatus(t.Context(), shrunk, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		p.on(t, "next", "a")
	})
}
