package volumeexpand

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func settle() {
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

func size(text string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(text)}
}

// aClaim returns a bound claim of the volume v.
func aClaim(asks, has string) claim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "uid-c"},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "v", Resources: corev1.VolumeResourceRequirements{Requests: size(asks)}},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: size(has)},
	}
}

func aVolume(of corev1.PersistentVolumeSource, claim types.UID, annotations map[string]string) pv {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "v", Annotations: annotations},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeSource: of, ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: "c", UID: claim},
		},
	}
}

var (
	csi   = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: "h"}}
	ebs   = corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}
	local = corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/data"}}
)

const (
	external = "waiting for an external controller to expand this PVC"
	migrated = "CSI migration enabled for kubernetes.io/aws-ebs; waiting for external resizer to expand the pvc"
)

func plane(t *testing.T) *controltest.Plane {
	t.Helper()
	p := controltest.New(t)
	p.Allow("get list watch /persistentvolumes", "get list watch /persistentvolumeclaims", "patch /persistentvolumeclaims/status", controltest.Events)
	return p
}

// TestWhoExpands checks the Event and the annotation of claims that ask for more than they have.
func TestWhoExpands(t *testing.T) {
	unbound := aClaim("2Gi", "1Gi")
	unbound.Status.Phase = corev1.ClaimPending
	for _, tt := range []struct {
		name     string
		claim    claim
		volume   pv
		event    string
		resizers string
	}{
		{"no volume", aClaim("2Gi", "1Gi"), nil, "", ""},
		{"a volume of another claim", aClaim("2Gi", "1Gi"), aVolume(csi, "uid-d", nil), "", ""},
		{"a claim that is not bound", unbound, aVolume(csi, "uid-c", nil), "", ""},
		{"as large as asked for", aClaim("2Gi", "2Gi"), aVolume(csi, "uid-c", nil), "", ""},
		{"smaller than before", aClaim("1Gi", "2Gi"), aVolume(csi, "uid-c", nil), "", ""},
		{"a CSI driver", aClaim("2Gi", "1Gi"), aVolume(csi, "uid-c", nil), external, ""},
		{"a volume that cannot be expanded", aClaim("2Gi", "1Gi"), aVolume(local, "uid-c", nil), external, ""},
		{"a plugin that a driver replaces", aClaim("2Gi", "1Gi"), aVolume(ebs, "uid-c", nil), migrated, "ebs.csi.aws.com"},
		{"a file system that is to grow", aClaim("2Gi", "2Gi"), aVolume(csi, "uid-c", map[string]string{before: "1Gi"}), external, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := plane(t)
				if tt.volume != nil {
					p.Load(tt.volume)
				}
				p.Load(tt.claim)
				p.Declare(New)
				p.Start()
				settle()
				var want []string
				if tt.event != "" {
					want = []string{tt.event}
				}
				if got := p.Events(expanding); !slices.Equal(got, want) {
					t.Errorf("the Events are %q, want %q", got, want)
				}
				if got := controltest.Get[claim](p, "default", "c").Annotations[resizer]; got != tt.resizers {
					t.Errorf("the annotation is %q, want %q", got, tt.resizers)
				}
			})
		})
	}
}

// TestGrowth checks that a claim is looked at when it asks for more, and when its volume comes late, and
// not for other changes.
func TestGrowth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		p.Load(aClaim("1Gi", "1Gi"))
		p.Declare(New)
		p.Start()
		settle()
		controltest.Change(p, "default", "c", func(c claim) { c.Spec.Resources.Requests = size("2Gi") })
		settle()
		if got := p.Events(expanding); len(got) != 0 {
			t.Fatalf("without a volume the Events are %q", got)
		}
		p.Load(aVolume(ebs, "uid-c", nil))
		settle()
		if got := p.Events(expanding); !slices.Equal(got, []string{migrated}) {
			t.Fatalf("when the volume came the Events are %q", got)
		}
		writes := len(p.Writes())
		controltest.Change(p, "default", "c", func(c claim) { c.Labels = map[string]string{"a": "b"} })
		settle()
		if got := len(p.Writes()) - writes; got != 1 { // The test's own.
			t.Errorf("%d writes after a label, want 1", got)
		}
		controltest.Change(p, "default", "c", func(c claim) { c.Spec.Resources.Requests = size("3Gi") })
		settle()
		events := controltest.List[*corev1.Event](p)
		if len(events) != 1 || events[0].Count != 2 {
			t.Errorf("after more growth there are %d Events: %+v", len(events), events)
		}
	})
}

// TestAnotherTerm checks that a later term writes an annotation that is there no second time.
func TestAnotherTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		p.Load(aVolume(ebs, "uid-c", nil))
		c := aClaim("2Gi", "1Gi")
		c.Annotations = map[string]string{resizer: "ebs.csi.aws.com"}
		p.Load(c)
		p.Declare(New)
		p.Start()
		settle()
		if len(p.Writes()) != 1 {
			t.Errorf("%d writes, want the Event only", len(p.Writes()))
		}
	})
}
