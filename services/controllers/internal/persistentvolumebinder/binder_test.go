package persistentvolumebinder

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run runs both queues on a plane.
func run(p *controltest.Plane) {
	p.Allow("get list watch update /persistentvolumeclaims", "update /persistentvolumeclaims/status", "list watch update /persistentvolumes",
		"update /persistentvolumes/status", "list watch storage.k8s.io/storageclasses", "list watch /pods", controltest.Events)
	p.Declare(New)
	p.Start()
}

func settle() {
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

func aVolume(name, size string, change ...func(pv)) pv {
	filesystem := corev1.PersistentVolumeFilesystem
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}, VolumeMode: &filesystem,
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/" + name}},
		},
	}
	for _, f := range change {
		f(v)
	}
	return v
}

func aClaim(name, size string, change ...func(claim)) claim {
	filesystem, none := corev1.PersistentVolumeFilesystem, ""
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("claim-" + name)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeMode: &filesystem, StorageClassName: &none,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func aClass(name, provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
}

func ofClass(name string) func(claim) { return func(c claim) { c.Spec.StorageClassName = &name } }

func reservedFor(name string, uid types.UID) func(pv) {
	return func(v pv) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: name, UID: uid}
	}
}

// boundTo makes a claim and a volume as a complete binding leaves them.
func boundTo(c claim, v pv) {
	c.Spec.VolumeName, c.Annotations = v.Name, map[string]string{volume.AnnBindCompleted: "yes", volume.AnnBoundByController: "yes"}
	c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: v.Spec.AccessModes, Capacity: v.Spec.Capacity}
	reservedFor(c.Name, c.UID)(v)
	v.Annotations = map[string]string{volume.AnnBoundByController: "yes"}
	v.Status.Phase = corev1.VolumeBound
}

// TestBinding checks which volume each claim gets, and what both say in the end.
func TestBinding(t *testing.T) {
	for _, tt := range []struct {
		name    string
		volumes []pv
		claim   claim
		want    string
		reason  string
	}{
		{name: "the smallest that is large enough", volumes: []pv{aVolume("small", "1Gi"), aVolume("large", "10Gi"), aVolume("fits", "5Gi")}, claim: aClaim("c", "2Gi"), want: "fits"},
		{
			name: "the fewest access modes", claim: aClaim("c", "1Gi"), want: "plain",
			volumes: []pv{aVolume("many", "1Gi", func(v pv) {
				v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteMany}
			}), aVolume("plain", "5Gi")},
		},
		{name: "none is large enough", volumes: []pv{aVolume("small", "1Gi")}, claim: aClaim("c", "2Gi"), reason: "FailedBinding"},
		{name: "reserved for it", volumes: []pv{aVolume("a", "2Gi"), aVolume("mine", "9Gi", reservedFor("c", ""))}, claim: aClaim("c", "1Gi"), want: "mine"},
		{name: "reserved for another", volumes: []pv{aVolume("theirs", "9Gi", reservedFor("d", ""))}, claim: aClaim("c", "1Gi"), reason: "FailedBinding"},
		{name: "the one it names", volumes: []pv{aVolume("a", "2Gi"), aVolume("b", "9Gi")}, claim: aClaim("c", "1Gi", func(c claim) { c.Spec.VolumeName = "b" }), want: "b"},
		{name: "too small a one", volumes: []pv{aVolume("b", "1Gi")}, claim: aClaim("c", "2Gi", func(c claim) { c.Spec.VolumeName = "b" }), reason: "VolumeMismatch"},
		{name: "the one of another", volumes: []pv{aVolume("b", "9Gi", reservedFor("d", "other"))}, claim: aClaim("c", "2Gi", func(c claim) { c.Spec.VolumeName = "b" }), reason: "FailedBinding"},
		{name: "another class", volumes: []pv{aVolume("a", "2Gi", func(v pv) { v.Spec.StorageClassName = "fast" })}, claim: aClaim("c", "1Gi"), reason: "FailedBinding"},
		{
			name: "a selector", volumes: []pv{aVolume("a", "2Gi"), aVolume("b", "9Gi", func(v pv) { v.Labels = map[string]string{"kind": "ssd"} })}, want: "b",
			claim: aClaim("c", "1Gi", func(c claim) { c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "ssd"}} }),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := controltest.New(t)
				for _, v := range tt.volumes {
					p.Load(v)
				}
				p.Load(tt.claim)
				run(p)
				settle()
				c := controltest.Get[claim](p, "default", "c")
				if tt.want == "" {
					if c.Status.Phase != corev1.ClaimPending || len(p.Events(tt.reason)) == 0 {
						t.Errorf("the claim is %s with volume %q and Events %q", c.Status.Phase, c.Spec.VolumeName, p.Events(tt.reason))
					}
					return
				}
				v := controltest.Get[pv](p, "", tt.want)
				if c.Spec.VolumeName != tt.want || c.Status.Phase != corev1.ClaimBound || c.Annotations[volume.AnnBindCompleted] != "yes" ||
					!slices.Equal(c.Status.AccessModes, v.Spec.AccessModes) || c.Status.Capacity.Storage().Cmp(*v.Spec.Capacity.Storage()) != 0 {
					t.Errorf("the claim is %+v, %+v", c.Spec, c.Status)
				}
				if v.Status.Phase != corev1.VolumeBound || v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != c.UID {
					t.Errorf("the volume is %+v, %+v", v.Spec.ClaimRef, v.Status)
				}
				for _, other := range tt.volumes {
					if got := controltest.Get[pv](p, "", other.Name); other.Name != tt.want && got.Status.Phase != corev1.VolumeAvailable {
						t.Errorf("volume %s is %s", got.Name, got.Status.Phase)
					}
				}
			})
		})
	}
}

// TestClaimsGetOneVolumeEach checks that as many claims are bound as there are volumes, each to its own,
// though the caches are late, and that a volume that comes later goes to one that waits.
func TestClaimsGetOneVolumeEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.NewLate(t, "PersistentVolume", 2*time.Second)
		for _, name := range []string{"a", "b", "c"} {
			p.Load(aVolume(name, "1Gi"))
			p.Load(aClaim(name, "1Gi"))
		}
		p.Load(aClaim("late", "1Gi"))
		run(p)
		time.Sleep(5 * time.Minute)
		count := func() map[string]int {
			used := map[string]int{}
			for _, c := range controltest.List[claim](p) {
				if c.Status.Phase == corev1.ClaimBound {
					used[c.Spec.VolumeName]++
				}
			}
			return used
		}
		if used := count(); len(used) != 3 || used["a"] != 1 || used["b"] != 1 || used["c"] != 1 {
			t.Errorf("claims use the volumes %v", used)
		}
		p.Load(aVolume("d", "1Gi"))
		time.Sleep(5 * time.Minute)
		if used := count(); used["d"] != 1 {
			t.Errorf("after another volume came, claims use %v", used)
		}
	})
}

// TestDelayedBinding checks that a claim whose class waits for a pod is not bound, that its Event says what
// it waits for, and that its provisioner is asked once the scheduler has chosen a node.
func TestDelayedBinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		p.Load(aClass("local", "example.com/local", storagev1.VolumeBindingWaitForFirstConsumer))
		p.Load(aVolume("free", "5Gi", func(v pv) { v.Spec.StorageClassName = "local" }))
		p.Load(aClaim("c", "1Gi", ofClass("local")))
		run(p)
		settle()
		if got := p.Events("WaitForFirstConsumer"); !slices.Equal(got, []string{"waiting for first consumer to be created before binding"}) {
			t.Errorf("Events: %q", got)
		}
		p.Load(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{{
			Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}},
		}}}})
		settle()
		if got := p.Events("WaitForPodScheduled"); !slices.Equal(got, []string{"waiting for pod web to be scheduled"}) {
			t.Errorf("Events: %q", got)
		}
		if c := controltest.Get[claim](p, "default", "c"); c.Status.Phase != corev1.ClaimPending || c.Annotations[volume.AnnStorageProvisioner] != "" {
			t.Errorf("the claim is %s, annotations %v", c.Status.Phase, c.Annotations)
		}
		controltest.Change(p, "default", "c", func(c claim) { c.Annotations = map[string]string{volume.AnnSelectedNode: "n"} })
		settle()
		if c := controltest.Get[claim](p, "default", "c"); c.Annotations[volume.AnnStorageProvisioner] != "example.com/local" ||
			c.Annotations[volume.AnnBetaStorageProvisioner] != "example.com/local" || len(p.Events("ExternalProvisioning")) != 1 {
			t.Errorf("annotations %v, Events %q", c.Annotations, p.Events("ExternalProvisioning"))
		}
		// The provisioner creates a volume that names the claim.
		p.Load(aVolume("made", "1Gi", func(v pv) { v.Spec.StorageClassName = "local" }, reservedFor("c", "claim-c")))
		settle()
		if c := controltest.Get[claim](p, "default", "c"); c.Spec.VolumeName != "made" || c.Status.Phase != corev1.ClaimBound {
			t.Errorf("the claim is %s with volume %q", c.Status.Phase, c.Spec.VolumeName)
		}
	})
}

// TestClasses checks what a claim's class leads to, also one that comes later.
func TestClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		p.Load(aClaim("absent", "1Gi", ofClass("absent")))
		p.Load(aClass("old", "kubernetes.io/aws-ebs", storagev1.VolumeBindingImmediate))
		p.Load(aClaim("intree", "1Gi", ofClass("old")))
		p.Load(aClaim("any", "1Gi", func(c claim) { c.Spec.StorageClassName = nil }))
		run(p)
		settle()
		failed := p.Events("ProvisioningFailed")
		slices.Sort(failed)
		if !slices.Equal(failed, []string{"no volume plugin matched name: kubernetes.io/aws-ebs", `storageclass.storage.k8s.io "absent" not found`}) {
			t.Errorf("Events: %q", failed)
		}
		made := aClass("absent", "example.com/disk", storagev1.VolumeBindingImmediate)
		made.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
		p.Load(made)
		settle()
		for _, name := range []string{"absent", "any"} {
			c := controltest.Get[claim](p, "default", name)
			if *c.Spec.StorageClassName != "absent" || c.Annotations[volume.AnnStorageProvisioner] != "example.com/disk" {
				t.Errorf("claim %s has class %q and annotations %v", name, *c.Spec.StorageClassName, c.Annotations)
			}
		}
	})
}

// TestALateCacheOfVolumes checks that a claim right after its volume gets no Event that nothing suits.
func TestALateCacheOfVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.NewLate(t, "PersistentVolume", 300*time.Millisecond)
		run(p)
		settle()
		p.Load(aVolume("one", "1Gi", func(v pv) { v.Spec.StorageClassName = "absent" }))
		p.Load(aClaim("mine", "1Gi", ofClass("absent")))
		settle()
		if failed := p.Events("ProvisioningFailed"); len(failed) > 0 {
			t.Errorf("got Events %q", failed)
		}
		if c := controltest.Get[claim](p, "default", "mine"); c.Status.Phase != corev1.ClaimBound {
			t.Errorf("the claim is %s", c.Status.Phase)
		}
	})
}

// TestReclaim checks what becomes of a volume whose claim is gone.
func TestReclaim(t *testing.T) {
	provisioned := func(by string) func(pv) {
		return func(v pv) {
			v.Annotations[volume.AnnDynamicallyProvisioned] = by
		}
	}
	for _, tt := range []struct {
		name    string
		policy  corev1.PersistentVolumeReclaimPolicy
		change  func(pv)
		phase   corev1.PersistentVolumePhase
		message string
	}{
		{"retain", corev1.PersistentVolumeReclaimRetain, nil, corev1.VolumeReleased, ""},
		{"delete, made by hand", corev1.PersistentVolumeReclaimDelete, nil, corev1.VolumeFailed, `error getting deleter volume plugin for volume "v": no deletable volume plugin matched`},
		{"delete, made by a provisioner", corev1.PersistentVolumeReclaimDelete, provisioned("example.com/disk"), corev1.VolumeReleased, ""},
		{"delete, made by a provisioner of old", corev1.PersistentVolumeReclaimDelete, provisioned("kubernetes.io/aws-ebs"), corev1.VolumeFailed, "no volume plugin matched name: kubernetes.io/aws-ebs"},
		{"recycle", corev1.PersistentVolumeReclaimRecycle, nil, corev1.VolumeFailed, "No recycler plugin found for the volume!"},
		{"unknown", "Burn", nil, corev1.VolumeFailed, "Volume has unrecognized PersistentVolumeReclaimPolicy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := controltest.New(t)
				c, v := aClaim("c", "1Gi"), aVolume("v", "1Gi")
				boundTo(c, v)
				v.Spec.PersistentVolumeReclaimPolicy = tt.policy
				if tt.change != nil {
					tt.change(v)
				}
				p.Load(c)
				p.Load(v)
				run(p)
				settle()
				if writes := p.Writes(); len(writes) > 0 {
					t.Errorf("a complete binding leads to %+v", writes)
				}
				p.Remove(c)
				settle()
				got := controltest.Get[pv](p, "", "v")
				if got.Status.Phase != tt.phase || got.Status.Message != tt.message {
					t.Errorf("the volume is %s: %q, want %s: %q", got.Status.Phase, got.Status.Message, tt.phase, tt.message)
				}
				if tt.message != "" && !strings.Contains(strings.Join(append(p.Events("VolumeFailedDelete"), append(p.Events("VolumeFailedRecycle"), p.Events("VolumeUnknownReclaimPolicy")...)...), "\n"), tt.message) {
					t.Error("no Event tells why")
				}
				// A claim that takes the name gets no data of the old one.
				p.Load(aClaim("c", "1Gi", func(c claim) { c.UID = "new" }))
				settle()
				if c := controltest.Get[claim](p, "default", "c"); c.Status.Phase != corev1.ClaimPending {
					t.Errorf("a new claim of the old name is %s", c.Status.Phase)
				}
			})
		})
	}
}

// TestLostClaims checks that a claim whose volume is gone, or another's, says so.
func TestLostClaims(t *testing.T) {
	for _, tt := range []struct {
		name, reason, message string
		happen                func(p *controltest.Plane)
	}{
		{"the volume is deleted", "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!", func(p *controltest.Plane) {
			p.Remove(controltest.Get[pv](p, "", "v"))
		}},
		{"the volume is another's", "ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly", func(p *controltest.Plane) {
			controltest.Change(p, "", "v", reservedFor("d", "another"))
		}},
		{"the claim forgets it", "ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!", func(p *controltest.Plane) {
			controltest.Change(p, "default", "c", func(c claim) { c.Spec.VolumeName = "" })
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := controltest.New(t)
				c, v := aClaim("c", "1Gi"), aVolume("v", "1Gi")
				boundTo(c, v)
				p.Load(c)
				p.Load(v)
				run(p)
				settle()
				tt.happen(p)
				settle()
				if c := controltest.Get[claim](p, "default", "c"); c.Status.Phase != corev1.ClaimLost || !slices.Equal(p.Events(tt.reason), []string{tt.message}) {
					t.Errorf("the claim is %s, Events %q", c.Status.Phase, p.Events(tt.reason))
				}
			})
		})
	}
}

// TestVolumesOfClaimsThatAreBoundElsewhere checks that such a volume is free again, or stays reserved if a
// user has reserved it.
func TestVolumesOfClaimsThatAreBoundElsewhere(t *testing.T) {
	for _, byUser := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := controltest.New(t)
			c, v, other := aClaim("c", "1Gi"), aVolume("v", "1Gi"), aVolume("w", "1Gi", reservedFor("c", "claim-c"))
			boundTo(c, v)
			if !byUser {
				other.Annotations = map[string]string{volume.AnnBoundByController: "yes"}
			}
			p.Load(c)
			p.Load(v)
			p.Load(other)
			run(p)
			settle()
			got := controltest.Get[pv](p, "", "w")
			if got.Status.Phase != corev1.VolumeAvailable || byUser && (got.Spec.ClaimRef == nil || got.Spec.ClaimRef.UID != "") || !byUser && got.Spec.ClaimRef != nil {
				t.Errorf("by a user %v: the volume is %s, claimRef %+v", byUser, got.Status.Phase, got.Spec.ClaimRef)
			}
		})
	}
}
