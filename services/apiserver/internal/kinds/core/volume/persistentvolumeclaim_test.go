package volume

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestClaimSources(t *testing.T) {
	s := PersistentVolumeClaim()
	snapshot := &corev1.TypedLocalObjectReference{APIGroup: new(snapshots), Kind: "VolumeSnapshot", Name: "s"}
	elsewhere := &corev1.TypedObjectReference{APIGroup: new("a.b"), Kind: "K", Name: "n", Namespace: new("other")}
	for name, tc := range map[string]struct {
		spec                corev1.PersistentVolumeClaimSpec
		wantSource, wantRef bool
	}{
		"none":              {},
		"a claim":           {corev1.PersistentVolumeClaimSpec{DataSource: &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "c"}}, true, true},
		"a snapshot":        {corev1.PersistentVolumeClaimSpec{DataSource: snapshot}, true, true},
		"garbage":           {corev1.PersistentVolumeClaimSpec{DataSource: &corev1.TypedLocalObjectReference{Kind: "Pod", Name: "p"}}, false, false},
		"anything, newly":   {corev1.PersistentVolumeClaimSpec{DataSourceRef: &corev1.TypedObjectReference{APIGroup: new("a.b"), Kind: "K", Name: "n"}}, true, true},
		"another namespace": {corev1.PersistentVolumeClaimSpec{DataSourceRef: elsewhere}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := &corev1.PersistentVolumeClaim{Spec: *tc.spec.DeepCopy()}
			s.PrepareForCreate(c)
			if (c.Spec.DataSource != nil) != tc.wantSource || (c.Spec.DataSourceRef != nil) != tc.wantRef {
				t.Errorf("got sources %+v and %+v", c.Spec.DataSource, c.Spec.DataSourceRef)
			}
		})
	}
	// An old client that omits the fields that it does not know changes nothing.
	old := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{DataSource: &corev1.TypedLocalObjectReference{APIGroup: new("a.b"), Kind: "K", Name: "n"}}}
	c := old.DeepCopy()
	s.Update.Prepare(c, old)
	if c.Spec.DataSource == nil || c.Spec.DataSourceRef == nil || old.Spec.DataSourceRef != nil {
		t.Errorf("update: got %+v, want %+v", c.Spec, old.Spec)
	}
	for _, err := range s.Update.Validate(c, old) {
		if err.Field == "spec" {
			t.Error(err)
		}
	}
}

func TestClaimWarnings(t *testing.T) {
	half := corev1.ResourceList{"storage": resource.MustParse("1500m")}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.BetaStorageClassAnnotation: "fast"}},
		Spec:       corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: half, Limits: half}},
	}
	want := []string{
		`metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "storageClassName" attribute instead`,
		`spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer`,
		`spec.resources.limits[storage]: fractional byte value "1500m" is invalid, must be an integer`,
	}
	if got := PersistentVolumeClaim().Warnings(claim); !slices.Equal(got, want) {
		t.Errorf("got warnings %q", got)
	}
}

func TestDefaultClaim(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{}
	if PersistentVolumeClaim().Default(claim); *claim.Spec.VolumeMode != "Filesystem" || claim.Status.Phase != corev1.ClaimPending {
		t.Errorf("got claim %+v", claim)
	}
}

// TestClaimHealth checks that a claim keeps a health that it has, and gets none: Kubernetes disables it by
// default.
func TestClaimHealth(t *testing.T) {
	prepare := PersistentVolumeClaim().Subresources["status"].Prepare
	healthy := func() *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{HealthStatus: &corev1.VolumeHealthStatus{}}}
	}
	c := healthy()
	if prepare(c, &corev1.PersistentVolumeClaim{}); c.Status.HealthStatus != nil {
		t.Errorf("got %+v", c.Status)
	}
	c = healthy()
	if prepare(c, healthy()); c.Status.HealthStatus == nil {
		t.Error("the health is lost")
	}
}
