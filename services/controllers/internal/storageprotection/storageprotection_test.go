package storageprotection

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func settle() {
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

func aClaim(name string, change ...func(claim)) claim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("claim-" + name), Finalizers: []string{claimFinalizer}},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func aPod(name, claim, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("pod-" + name)},
		Spec: corev1.PodSpec{NodeName: node, Volumes: []corev1.Volume{{
			Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// ephemeral returns a pod with an ephemeral volume, whose claim is named after both.
func ephemeral(name, node string) *corev1.Pod {
	p := aPod(name, "", node)
	p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}}
	return p
}

func ownedBy(pod *corev1.Pod) func(claim) {
	return func(c claim) {
		yes := true
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &yes}}
	}
}

func remove[T scheme.Object](p *controltest.Plane, namespace, name string) {
	if err := client.Of[T](p.Client).Delete(p.Context(), namespace, name, metav1.DeleteOptions{}); err != nil {
		panic(err)
	}
}

func exists[T scheme.Object](p *controltest.Plane, name string) bool {
	return slices.ContainsFunc(controltest.List[T](p), func(obj T) bool { return obj.GetName() == name })
}

// TestClaimsInUse checks that a deleted claim stays while a pod on a node uses it, and goes with the last.
func TestClaimsInUse(t *testing.T) {
	shut := aPod("p", "c", "n")
	shut.DeletionTimestamp, shut.DeletionGracePeriodSeconds, shut.Finalizers = &metav1.Time{Time: time.Now()}, new(int64), []string{"example.com/stay"}
	owner := ephemeral("p", "n")
	stopped := ephemeral("p", "n")
	stopped.DeletionTimestamp, stopped.DeletionGracePeriodSeconds, stopped.Finalizers = shut.DeletionTimestamp, shut.DeletionGracePeriodSeconds, shut.Finalizers
	for _, tt := range []struct {
		name  string
		claim claim
		pods  []*corev1.Pod
		stays bool
	}{
		{"no pod", aClaim("c"), nil, false},
		{"a pod on a node", aClaim("c"), []*corev1.Pod{aPod("p", "c", "n")}, true},
		{"a pod without a node", aClaim("c"), []*corev1.Pod{aPod("p", "c", "")}, false},
		{"a pod that is shut down", aClaim("c"), []*corev1.Pod{shut}, true},
		{"another claim", aClaim("c"), []*corev1.Pod{aPod("p", "d", "n")}, false},
		{"an ephemeral volume", aClaim("p-data", ownedBy(owner)), []*corev1.Pod{owner}, true},
		{"an ephemeral volume of another", aClaim("p-data"), []*corev1.Pod{owner}, false},
		{"an ephemeral volume of a pod that is shut down", aClaim("p-data", ownedBy(stopped)), []*corev1.Pod{stopped}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := controltest.New(t)
				p.Allow("list watch update /persistentvolumeclaims", "update /persistentvolumeclaims/status", "list watch /pods")
				p.Load(tt.claim)
				for _, pod := range tt.pods {
					p.Load(pod)
				}
				p.Declare(NewClaims)
				p.Start()
				settle()
				remove[claim](p, "default", tt.claim.Name)
				settle()
				if got := exists[claim](p, tt.claim.Name); got != tt.stays {
					t.Fatalf("the claim exists: %v, want %v", got, tt.stays)
				}
				for _, pod := range tt.pods {
					p.Remove(pod)
				}
				settle()
				if exists[claim](p, tt.claim.Name) {
					t.Error("the claim outlives the last pod")
				}
			})
		})
	}
}

// TestPodsThatTheCacheLacks checks that a claim stays for a pod of which the cache does not know yet.
func TestPodsThatTheCacheLacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.NewLate(t, "Pod", 10*time.Second)
		p.Load(aClaim("c"))
		p.Declare(NewClaims)
		p.Start()
		time.Sleep(time.Minute)
		p.Load(aPod("p", "c", "n"))
		remove[claim](p, "default", "c")
		time.Sleep(time.Minute)
		if !exists[claim](p, "c") {
			t.Error("the claim is gone, though a pod uses it")
		}
	})
}

// TestFinalizersAreAdded checks that objects from before the admission plugin get their finalizers, each
// by one write.
func TestFinalizersAreAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		p.Allow("list watch update /persistentvolumeclaims", "update /persistentvolumeclaims/status", "list watch update /persistentvolumes",
			"list watch update storage.k8s.io/volumeattributesclasses", "list watch /pods")
		p.Load(aClaim("c", func(c claim) { c.Finalizers, c.Status.Phase = nil, corev1.ClaimPending }))
		p.Load(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}})
		p.Load(&storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
		p.Declare(NewClaims)
		p.Declare(NewVolumes)
		p.Declare(NewClasses)
		p.Start()
		settle()
		for _, obj := range []scheme.Object{controltest.Get[claim](p, "default", "c"), controltest.Get[pv](p, "", "v"), controltest.Get[class](p, "", "a")} {
			want := map[string]string{"c": claimFinalizer, "v": volumeFinalizer, "a": classFinalizer}[obj.GetName()]
			if !slices.Equal(obj.GetFinalizers(), []string{want}) {
				t.Errorf("%s has the finalizers %q, want %q", obj.GetName(), obj.GetFinalizers(), want)
			}
		}
		if got := len(p.Writes()); got != 3 {
			t.Errorf("%d writes, want 3", got)
		}
	})
}

// TestUnused checks that a bound claim tells whether a pod references it.
func TestUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		p.Load(aClaim("c"))
		p.Load(aClaim("pending", func(c claim) { c.Status.Phase = corev1.ClaimPending }))
		p.Declare(NewClaims)
		p.Start()
		says := func(what, want string) {
			t.Helper()
			settle()
			got := ""
			for _, condition := range controltest.Get[claim](p, "default", "c").Status.Conditions {
				got = string(condition.Type) + "=" + string(condition.Status) + " " + condition.Reason + ": " + condition.Message
			}
			if got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		const free, used = "Unused=True NoPodsUsingPVC: No pods are currently referencing this PVC", "Unused=False PodUsingPVC: A pod is currently referencing this PVC"
		says("no pod", free)
		p.Load(aPod("p", "c", ""))
		says("a pod without a node", used)
		controltest.SetStatus(p, "default", "p", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
		says("a pod that has ended", free)
		leaving := aPod("leaving", "c", "n")
		leaving.Finalizers = []string{"example.com/stay"}
		leaving.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		p.Load(leaving)
		says("another pod", used)
		remove[*corev1.Pod](p, "default", "leaving")
		says("a pod that is deleted and runs", used)
		controltest.SetStatus(p, "default", "leaving", func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
		})
		says("a pod that is deleted, and of which nothing runs", free)
		if got := controltest.Get[claim](p, "default", "pending").Status.Conditions; len(got) > 0 {
			t.Errorf("a claim that is not bound has the conditions %+v", got)
		}
		if got := len(p.Writes()); got != 8 { // The test's own are three.
			t.Errorf("%d writes, want 8", got)
		}
	})
}

// TestVolumesAndClassesInUse checks that a bound volume and a class in use stay, and go when that ends.
func TestVolumesAndClassesInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		name := "a"
		p.Load(&corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "v", Finalizers: []string{volumeFinalizer}}, Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
			Spec: corev1.PersistentVolumeSpec{VolumeAttributesClassName: &name},
		})
		p.Load(&storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{classFinalizer}}})
		p.Load(aClaim("c", func(c claim) {
			c.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: "a"}
		}))
		p.Declare(func(d controller.Deps) *controller.Spec { return NewVolumes(d) })
		p.Declare(func(d controller.Deps) *controller.Spec { return NewClasses(d) })
		p.Start()
		settle()
		remove[pv](p, "", "v")
		remove[class](p, "", "a")
		settle()
		if !exists[pv](p, "v") || !exists[class](p, "a") {
			t.Error("a bound volume or a class in use is gone")
		}
		controltest.SetStatus(p, "", "v", func(v pv) { v.Status.Phase = corev1.VolumeReleased })
		settle()
		if exists[pv](p, "v") || !exists[class](p, "a") {
			t.Error("want the volume gone, and the class still in use by a claim")
		}
		controltest.SetStatus(p, "default", "c", func(c claim) { c.Status.ModifyVolumeStatus = nil })
		settle()
		if exists[class](p, "a") {
			t.Error("the class outlives its last user")
		}
	})
}
