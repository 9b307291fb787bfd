package cycle_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
)

func class(name, provisioner string) *storagev1.StorageClass {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
}

// waiting returns a claim of a class that is not bound.
func waiting(name, class, size string) *corev1.PersistentVolumeClaim {
	filesystem := corev1.PersistentVolumeFilesystem
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("claim-" + name)},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, VolumeMode: &filesystem, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
}

// local returns a free volume of a class on a node.
func local(name, class, size, node string) *corev1.PersistentVolume {
	filesystem := corev1.PersistentVolumeFilesystem
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, VolumeMode: &filesystem, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
}

// bindClaims completes what the scheduler has begun, in place of the controllers.
func (p *plane) bindClaims(t *testing.T) {
	t.Helper()
	volumes, _, err := client.Of[*corev1.PersistentVolume](p.api).List(t.Context(), "", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range volumes {
		if v.Spec.ClaimRef == nil {
			continue
		}
		c := p.claim(t, v.Spec.ClaimRef.Name)
		if c.Spec.VolumeName != "" {
			continue
		}
		c.Spec.VolumeName, c.Annotations = v.Name, map[string]string{"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": c.Annotations["volume.kubernetes.io/selected-node"]}
		if _, err := client.Of[*corev1.PersistentVolumeClaim](p.api).Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func (p *plane) claim(t *testing.T, name string) *corev1.PersistentVolumeClaim {
	t.Helper()
	c, err := client.Of[*corev1.PersistentVolumeClaim](p.api).Get(t.Context(), "default", name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestVolumesAreChosenWithTheNode checks that pods go where there are volumes for their claims, each to
// its own volume, and are bound only when their claims are.
func TestVolumesAreChosenWithTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, node("a", "4"), node("b", "4"), node("c", "4"), class("local", "kubernetes.io/no-provisioner"))
		for _, v := range []*corev1.PersistentVolume{local("on-a", "local", "1Gi", "a"), local("on-b", "local", "5Gi", "b"), local("other", "fast", "9Gi", "c")} {
			p.api.Load(v)
		}
		for i, size := range []string{"1Gi", "1Gi", "1Gi"} {
			p.api.Load(waiting(fmt.Sprint(i), "local", size))
			p.create(t, claiming(fmt.Sprint("p", i), fmt.Sprint(i)))
		}
		time.Sleep(30 * time.Second)
		for i := range 3 {
			p.on(t, fmt.Sprint("p", i), "")
		}
		p.bindClaims(t)
		time.Sleep(30 * time.Second)
		p.mu.Lock()
		for _, event := range p.events {
			if strings.Contains(event, "PreBind") {
				t.Errorf("two pods were given one volume: %s", event)
			}
		}
		p.mu.Unlock()
		used := map[string]string{}
		without := 0
		for i := range 3 {
			name := p.claim(t, fmt.Sprint(i)).Spec.VolumeName
			if name == "" {
				without++
				event, _ := p.last(fmt.Sprint("p", i))
				if !strings.Contains(event, "3 node(s) didn't find available persistent volumes to bind") {
					t.Errorf("the pod without a volume has the event %q", event)
				}
				continue
			}
			if other, twice := used[name]; twice {
				t.Errorf("the claims %d and %s have the volume %s", i, other, name)
			}
			used[name] = fmt.Sprint(i)
			p.on(t, fmt.Sprint("p", i), strings.TrimPrefix(name, "on-"))
		}
		if without != 1 {
			t.Errorf("%d pods are without a volume, want 1", without)
		}
	})
}

// TestVolumesAreMadeForTheNode checks that a claim without a volume gets the node for which one is to be
// made, that the pod waits for it, and that it is placed again if that fails.
func TestVolumesAreMadeForTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := class("made", "example.com/disk")
		made.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
			{Key: corev1.LabelHostname, Values: []string{"b", "c"}},
		}}}
		p := start(t, node("a", "4"), node("b", "4"), made)
		p.api.Load(waiting("data", "made", "1Gi"))
		p.create(t, claiming("p", "data"))
		time.Sleep(30 * time.Second)
		c := p.claim(t, "data")
		if got := c.Annotations["volume.kubernetes.io/selected-node"]; got != "b" {
			t.Fatalf("the claim's node is %q, want b", got)
		}
		p.on(t, "p", "")
		// The provisioner gives up.
		c.Annotations = nil
		if _, err := client.Of[*corev1.PersistentVolumeClaim](p.api).Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		p.saw(t, `Warning FailedScheduling p: running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "data"`)
		time.Sleep(30 * time.Second)
		if got := p.claim(t, "data").Annotations["volume.kubernetes.io/selected-node"]; got != "b" {
			t.Fatalf("after a failure, the claim's node is %q, want b", got)
		}
		v := local("disk", "made", "1Gi", "b")
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "data", UID: "claim-data"}
		p.api.Load(v)
		p.bindClaims(t)
		time.Sleep(time.Second)
		p.on(t, "p", "b")
	})
}

// TestPodsWaitForStorage checks that a pod is placed once its driver reports enough storage, or no longer
// limits what is made.
func TestPodsWaitForStorage(t *testing.T) {
	yes, no, little, enough := true, false, resource.MustParse("1Mi"), resource.MustParse("1Gi")
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "disk.example.com"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &yes}}
	capacity := &storagev1.CSIStorageCapacity{
		ObjectMeta:   metav1.ObjectMeta{Namespace: "default", Name: "pool"},
		NodeTopology: &metav1.LabelSelector{}, StorageClassName: "made", Capacity: &little,
	}
	for name, change := range map[string]func(t *testing.T, p *plane){
		"more storage": func(t *testing.T, p *plane) {
			more := capacity.DeepCopy()
			more.Capacity = &enough
			update(t, p, more)
		},
		"another pool": func(_ *testing.T, p *plane) {
			another := capacity.DeepCopy()
			another.Name, another.Capacity = "another", &enough
			p.api.Load(another)
		},
		"no limit": func(t *testing.T, p *plane) {
			free := driver.DeepCopy()
			free.Spec.StorageCapacity = &no
			update(t, p, free)
		},
		"no driver": func(t *testing.T, p *plane) {
			if err := client.Of[*storagev1.CSIDriver](p.api).Delete(t.Context(), "", driver.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, node("a", "4"), class("made", driver.Name), driver.DeepCopy(), capacity.DeepCopy())
				p.api.Load(waiting("data", "made", "1Gi"))
				p.create(t, claiming("p", "data"))
				time.Sleep(30 * time.Second)
				if event, _ := p.last("p"); !strings.Contains(event, "1 node(s) did not have enough free storage") {
					t.Fatalf("the event is %q", event)
				}
				change(t, p)
				time.Sleep(30 * time.Second)
				if got := p.claim(t, "data").Annotations["volume.kubernetes.io/selected-node"]; got != "a" {
					t.Errorf("the claim's node is %q, want a", got)
				}
			})
		})
	}
}

func update[T scheme.Object](t *testing.T, p *plane, obj T) {
	t.Helper()
	if _, err := client.Of[T](p.api).Update(t.Context(), obj, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestVolumesThatNeverCome checks that a pod does not wait longer than ten minutes, and that other pods
// are placed meanwhile.
func TestVolumesThatNeverCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, node("a", "100"), class("made", "example.com/disk"))
		for i := range 50 {
			p.api.Load(waiting(fmt.Sprint(i), "made", "1Gi"))
			p.create(t, claiming(fmt.Sprint("w", i), fmt.Sprint(i)))
		}
		time.Sleep(time.Minute)
		p.create(t, pod("plain", "1"))
		time.Sleep(time.Second)
		p.on(t, "plain", "a")
		time.Sleep(10 * time.Minute)
		p.saw(t, `Warning FailedScheduling w0: running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded`)
	})
}
