package ephemeralvolume

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func settle() {
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

func aPod() *corev1.Pod {
	class := "fast"
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-uid"},
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{
			{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "data", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}},
				Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &class},
			}}}},
		}},
	}
}

func run(t *testing.T) *controltest.Plane {
	p := controltest.New(t)
	p.Allow("list watch create /persistentvolumeclaims", "list watch /pods", controltest.Events)
	p.Declare(New)
	p.Start()
	return p
}

// TestClaims checks that the claim of an ephemeral volume is made from its template, once, and again when
// it is deleted while the pod stays.
func TestClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t)
		pod := aPod()
		p.Load(pod)
		settle()
		claims := controltest.List[*corev1.PersistentVolumeClaim](p)
		if len(claims) != 1 {
			t.Fatalf("%d claims, want 1", len(claims))
		}
		c := claims[0]
		if c.Name != "web-data" || !metav1.IsControlledBy(c, pod) || !*c.OwnerReferences[0].BlockOwnerDeletion || c.Labels["a"] != "b" ||
			c.Annotations["c"] != "d" || *c.Spec.StorageClassName != "fast" {
			t.Errorf("the claim is %+v", c)
		}
		p.Remove(c)
		settle()
		if got := len(controltest.List[*corev1.PersistentVolumeClaim](p)); got != 1 {
			t.Errorf("%d claims after a deletion, want 1", got)
		}
		pod = controltest.Get[*corev1.Pod](p, "default", "web")
		pod.DeletionTimestamp, pod.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.com/stay"}
		p.Load(pod)
		settle()
		p.Remove(controltest.Get[*corev1.PersistentVolumeClaim](p, "default", "web-data"))
		settle()
		if got := len(controltest.List[*corev1.PersistentVolumeClaim](p)); got != 0 {
			t.Errorf("%d claims of a pod that is being deleted, want 0", got)
		}
	})
}

// TestAForeignClaim checks that a claim that somebody else made is not used, and that an Event says so.
func TestAForeignClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t)
		p.Load(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-data"}})
		p.Load(aPod())
		settle()
		want := "ephemeral volume data: PVC default/web-data was not created for pod default/web (pod is not owner)"
		if got := p.Events("FailedBinding"); !slices.Contains(got, want) {
			t.Errorf("Events %q, want %q", got, want)
		}
	})
}
