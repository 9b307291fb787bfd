package attachdetach

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// settle lets everything happen that happens at once.
func settle() {
	time.Sleep(300 * time.Millisecond)
	synctest.Wait()
}

// TestAttachAndDetach follows a volume to a node and back, each step with its writes.
func TestAttachAndDetach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, Options{}, aNode("a"), aVolume("c"), aClaim("c"), aPod("p", "a", "c"))
		expect(t, p, "a pod on a node", driver+" a")
		a := controltest.Get[*storagev1.VolumeAttachment](p, "", attachmentName(driver, "h-c", "a"))
		if from := a.Spec.Source; from.PersistentVolumeName == nil || *from.PersistentVolumeName != "v-c" || from.InlineVolumeSpec != nil {
			t.Errorf("the attachment's source is %+v", from)
		}
		expectListed(t, p, "not attached yet", "a")
		answer(p, "a", isAttached)
		expectListed(t, p, "attached", "a", volumeName)
		load(p, aPod("q", "a", "c"))
		if got, want := told(p, succeeded), []string{`p: AttachVolume.Attach succeeded for volume "v-c" `}; !slices.Equal(got, want) {
			t.Errorf("the Events are %q, want %q", got, want)
		}
		setNode(p, "a", using(volumeName))
		ends(p, "p")
		ends(p, "q")
		expect(t, p, "still mounted", driver+" a")
		expectListed(t, p, "still mounted", "a", volumeName)
		p.ClearCalls()
		setNode(p, "a", using())
		expect(t, p, "unmounted")
		expectListed(t, p, "unmounted", "a")
		// The first write is the test's. The status comes first: the node must not mount what goes away.
		if got, want := writesOf(p), []string{"update nodes/status", "patch nodes/status", "delete volumeattachments"}; !slices.Equal(got, want) {
			t.Errorf("the writes are %q, want %q", got, want)
		}
	})
}

// TestEachOrder checks that the objects may become known in any order.
func TestEachOrder(t *testing.T) {
	kinds := []func() scheme.Object{
		func() scheme.Object { return aNode("a") }, func() scheme.Object { return aVolume("c") },
		func() scheme.Object { return aClaim("c") }, func() scheme.Object { return aPod("p", "a", "c") },
	}
	for first := range kinds {
		for second := range kinds {
			if second == first {
				continue
			}
			var order []int
			for i := range kinds {
				if i != first && i != second {
					order = append(order, i)
				}
			}
			for _, rest := range [][]int{order, {order[1], order[0]}} {
				all := append([]int{first, second}, rest...)
				t.Run(fmt.Sprint(all), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						p := plane(t, Options{})
						for _, i := range all {
							load(p, kinds[i]())
						}
						expect(t, p, "all are known", driver+" a")
					})
				})
			}
		}
	}
}

// TestNothingToAttach lists what asks for no attachment.
func TestNothingToAttach(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := aPod("p", "a", "c")
		change(p)
		return p
	}
	bound := func(change func(claim)) claim {
		c := aClaim("c")
		change(c)
		return c
	}
	for name, objs := range map[string][]scheme.Object{
		"a node that is not managed":  {aNode("a", func(n *corev1.Node) { n.Annotations = nil }), aVolume("c"), aClaim("c"), aPod("p", "a", "c")},
		"a pod without a node":        {aNode("a"), aVolume("c"), aClaim("c"), aPod("p", "", "c")},
		"a pod on an unknown node":    {aNode("a"), aVolume("c"), aClaim("c"), aPod("p", "b", "c")},
		"a pod that has ended":        {aNode("a"), aVolume("c"), aClaim("c"), pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })},
		"a claim that is not bound":   {aNode("a"), aVolume("c"), bound(func(c claim) { c.Status.Phase = corev1.ClaimPending }), aPod("p", "a", "c")},
		"a claim of the same name":    {aNode("a"), aVolume("c"), bound(func(c claim) { c.UID = "another" }), aPod("p", "a", "c")},
		"a claim of another volume":   {aNode("a"), aVolume("c"), bound(func(c claim) { c.Spec.VolumeName = "v-d" }), aPod("p", "a", "c")},
		"a volume without a claim":    {aNode("a"), aVolume("c", func(v pv) { v.Spec.ClaimRef = nil }), aClaim("c"), aPod("p", "a", "c")},
		"a driver that attaches none": {aNode("a"), aDriver(false), aVolume("c"), aClaim("c"), aPod("p", "a", "c")},
		"a volume without a driver": {aNode("a"), aVolume("c", func(v pv) {
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/data"}}
		}), aClaim("c"), aPod("p", "a", "c")},
		"an inline volume of a driver": {aNode("a"), podWith("p", "a", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driver}})},
		"an ephemeral volume whose claim is another's": {aNode("a"), aVolume("p-data"), aClaim("p-data"),
			podWith("p", "a", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}})},
		"a pod that is deleted, and of which nothing runs": {aNode("a"), aVolume("c"), aClaim("c"), pod(func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.Finalizers = &metav1.Time{Time: time.Now()}, new(int64), []string{"example.com/stay"}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := plane(t, Options{}, objs...)
				time.Sleep(10 * time.Minute)
				expect(t, p, name)
				if got := writesOf(p); len(got) != 0 {
					t.Errorf("the writes are %q", got)
				}
			})
		})
	}
}

// TestSources checks what is attached besides the claims of CSI drivers.
func TestSources(t *testing.T) {
	yes := true
	ebs := aVolume("c", func(v pv) {
		v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}
	})
	owned := aClaim("p-data")
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "pod-p", Controller: &yes}}
	for name, tt := range map[string]struct {
		objs   []scheme.Object
		want   string
		inline bool
	}{
		"a plugin that a driver replaces": {[]scheme.Object{aNode("a"), ebs, aClaim("c"), aPod("p", "a", "c")}, "ebs.csi.aws.com a", false},
		"such a plugin within a pod": {[]scheme.Object{aNode("a"), podWith("p", "a", corev1.VolumeSource{
			AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"},
		})}, "ebs.csi.aws.com a", true},
		"an ephemeral volume": {[]scheme.Object{aNode("a"), aVolume("p-data"), owned, podWith("p", "a", corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}},
		})}, driver + " a", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := plane(t, Options{}, tt.objs...)
				expect(t, p, name, tt.want)
				a := controltest.List[*storagev1.VolumeAttachment](p)[0]
				if got := a.Spec.Source.InlineVolumeSpec != nil; got != tt.inline || got == (a.Spec.Source.PersistentVolumeName != nil) {
					t.Errorf("the source is %+v", a.Spec.Source)
				}
				controltest.SetStatus(p, "", a.Name, isAttached)
				setNode(p, "a", using())
				ends(p, "p")
				expect(t, p, "after the pod")
			})
		})
	}
}

// TestDriverChanges checks that volumes come and go with the word of their driver.
func TestDriverChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, Options{}, aNode("a"), aDriver(false), aVolume("c"), aClaim("c"), aPod("p", "a", "c"))
		expect(t, p, "attaches none")
		p.Remove(aDriver(false))
		expect(t, p, "unknown", driver+" a")
		answer(p, "a", isAttached)
		setNode(p, "a", using())
		p.Load(aDriver(false))
		expect(t, p, "attaches none again")
		expectListed(t, p, "attaches none again", "a")
	})
}

// TestNodeComesLate checks that a node that becomes managed gets the volumes of the pods that are there.
func TestNodeComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, Options{}, aNode("a", func(n *corev1.Node) { n.Annotations = nil }), aVolume("c"), aClaim("c"), aPod("p", "a", "c"))
		expect(t, p, "not managed")
		controltest.Change(p, "", "a", func(n *corev1.Node) { n.Annotations = map[string]string{managed: ""} })
		expect(t, p, "managed", driver+" a")
	})
}

// TestExclusive checks that a volume for one node goes from node to node, and what the Events say meanwhile.
func TestExclusive(t *testing.T) {
	const detached = `: Waiting for detach for volume "v-c" `
	foreign := aPod("foreign", "a", "c")
	foreign.Namespace = "other"
	second := aVolume("d", func(v pv) { // Another PersistentVolume of the same volume.
		v.Spec.CSI.VolumeHandle = "h-c"
		v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name = "other", "c"
	})
	claimed := aClaim("c")
	claimed.Namespace, claimed.UID, claimed.Spec.VolumeName = "other", "claim-d", "v-d"
	for name, tt := range map[string]struct {
		holders []scheme.Object
		ends    []string
		want    string
	}{
		"another pod":   {[]scheme.Object{aPod("p", "a", "c")}, nil, detached + "Volume is already used by pod(s) p"},
		"a pod of old":  {[]scheme.Object{aPod("p", "a", "c")}, []string{"p"}, detached + "Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node"},
		"another space": {[]scheme.Object{second, claimed, foreign}, nil, detached + "Volume is already used by 1 pod(s) in different namespaces"},
		"both":          {[]scheme.Object{second, claimed, foreign, aPod("p", "a", "c")}, nil, detached + "Volume is already used by pod(s) p and 1 pod(s) in different namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := plane(t, Options{}, aNode("a"), aNode("b"), aVolume("c"), aClaim("c"))
				load(p, tt.holders...)
				answer(p, "a", isAttached)
				setNode(p, "a", using(volumeName))
				for _, pod := range tt.ends {
					ends(p, pod)
				}
				load(p, aPod("q", "b", "c"))
				time.Sleep(5 * time.Minute)
				expect(t, p, "in use", driver+" a")
				if got := told(p, failed); !slices.Equal(got, []string{"q" + tt.want}) {
					t.Errorf("the Events are %q, want %q", got, "q"+tt.want)
				}
				for _, pod := range controltest.List[*corev1.Pod](p) {
					if pod.Name != "q" {
						p.Remove(pod)
					}
				}
				settle()
				setNode(p, "a", using())
				expect(t, p, "unmounted", driver+" b")
				answer(p, "b", isAttached)
				expectListed(t, p, "moved", "a")
				expectListed(t, p, "moved", "b", volumeName)
			})
		})
	}
}

// TestMovesQuietly checks that no Event complains of a volume that is on its way.
func TestMovesQuietly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, Options{}, aNode("a"), aNode("b"), aVolume("c"), aClaim("c"), aPod("p", "a", "c"))
		answer(p, "a", isAttached)
		setNode(p, "a", using("another"))
		setNode(p, "a", using())
		controltest.SetStatus(p, "default", "p", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
		p.Load(aPod("q", "b", "c"))
		expect(t, p, "moved", driver+" b")
		if got := told(p, failed); len(got) != 0 {
			t.Errorf("the Events are %q", got)
		}
	})
}

// TestShared checks that a volume for several nodes is attached to each.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, Options{}, aNode("a"), aNode("b"), aVolume("c", shared), aClaim("c"), aPod("p", "a", "c"), aPod("q", "b", "c"))
		expect(t, p, "two nodes", driver+" a", driver+" b")
		answer(p, "a", isAttached)
		answer(p, "b", isAttached)
		setNode(p, "b", using())
		ends(p, "q")
		expect(t, p, "one pod has ended", driver+" a")
	})
}

// TestStaysWithItsPod checks that a volume stays while its pod runs, though claim and PersistentVolume go,
// and goes with the pod then.
func TestStaysWithItsPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, Options{}, aNode("a"), aVolume("c"), aClaim("c"), aPod("p", "a", "c"))
		answer(p, "a", isAttached)
		setNode(p, "a", using())
		p.Remove(aClaim("c"))
		settle()
		p.Remove(aVolume("c"))
		time.Sleep(10 * time.Minute)
		expect(t, p, "without claim and volume", driver+" a")
		p.Remove(aPod("p", "a", "c"))
		expect(t, p, "without the pod")
		load(p, aPod("again", "a", "c"))
		expect(t, p, "another pod")
	})
}

// TestStaleCache checks that each attachment is created and deleted once, however late its informer is.
func TestStaleCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.NewLate(t, "VolumeAttachment", 5*time.Second)
		run(p, Options{})
		load(p, aNode("a"), aVolume("c"), aClaim("c"), aPod("p", "a", "c"))
		for i := range 10 {
			setNode(p, "a", using(corev1.UniqueVolumeName(fmt.Sprint(volumeName, i))))
		}
		time.Sleep(time.Minute)
		answer(p, "a", isAttached)
		time.Sleep(time.Minute)
		ends(p, "p")
		for i := range 10 {
			setNode(p, "a", using(corev1.UniqueVolumeName(fmt.Sprint(volumeName, i))))
		}
		time.Sleep(time.Minute)
		expect(t, p, "after the pod")
		var got []string
		for _, write := range writesOf(p) {
			if write == "create volumeattachments" || write == "delete volumeattachments" {
				got = append(got, write)
			}
		}
		if want := []string{"create volumeattachments", "delete volumeattachments"}; !slices.Equal(got, want) {
			t.Errorf("the writes are %q, want %q", got, want)
		}
	})
}

// TestForeignNames checks that what a node has mounted and attached by other means stays as it is.
func TestForeignNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const foreign = "kubernetes.io/iscsi/1.2.3.4:iqn:0"
		p := plane(t, Options{}, aNode("a", func(n *corev1.Node) {
			n.Status.VolumesInUse = []corev1.UniqueVolumeName{foreign, "local"}
			n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: foreign, DevicePath: "/dev/sda"}}
		}), aVolume("c"), aClaim("c"), aPod("p", "a", "c"))
		answer(p, "a", isAttached)
		expectListed(t, p, "attached", "a", foreign, volumeName)
		setNode(p, "a", using(foreign))
		ends(p, "p")
		expect(t, p, "after the pod")
		expectListed(t, p, "after the pod", "a", foreign)
		if got := controltest.Get[*corev1.Node](p, "", "a").Status.VolumesAttached[0].DevicePath; got != "/dev/sda" {
			t.Errorf("the device is %q", got)
		}
	})
}

// TestManyVolumesInFewWrites checks that the status of a node is written for several volumes at a time.
func TestManyVolumesInFewWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const volumes = 50
		objs := []scheme.Object{aNode("a")}
		for i := range volumes {
			c := fmt.Sprint("c", i)
			pod := aPod("p"+c, "a", c)
			va := &storagev1.VolumeAttachment{
				ObjectMeta: metav1.ObjectMeta{Name: attachmentName(driver, "h-"+c, "a"), UID: types.UID("va-" + c)},
				Spec:       storagev1.VolumeAttachmentSpec{NodeName: "a", Attacher: driver, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &objs[0].(*corev1.Node).Name}},
				Status:     storagev1.VolumeAttachmentStatus{Attached: true},
			}
			objs = append(objs, aVolume(c), aClaim(c), pod, va)
		}
		p := controltest.New(t, objs...)
		run(p, Options{})
		time.Sleep(time.Minute)
		if got := len(controltest.Get[*corev1.Node](p, "", "a").Status.VolumesAttached); got != volumes {
			t.Fatalf("%d volumes are listed, want %d", got, volumes)
		}
		if got := len(writesOf(p)); got > volumes/2 {
			t.Errorf("%d writes for %d volumes", got, volumes)
		}
		for _, pod := range controltest.List[*corev1.Pod](p) {
			if err := client.Of[*corev1.Pod](p.Client).Delete(t.Context(), pod.Namespace, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		setNode(p, "a", using())
		expect(t, p, "after the pods")
		expectListed(t, p, "after the pods", "a")
	})
}
