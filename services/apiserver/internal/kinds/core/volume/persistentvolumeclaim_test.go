package volume

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
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
