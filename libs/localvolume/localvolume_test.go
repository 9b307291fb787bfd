package localvolume

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheckFolder(t *testing.T) {
	for folder, valid := range map[string]bool{
		"/var/lib/volumes": true, "/v": true, "/with space": true,
		"": false, "/": false, "relative": false, "/a/../b": false, "/a/": false, "//a": false, "/a\x00b": false, "/a\nb": false, "/a\xffb": false,
		"/" + strings.Repeat("x", 1024): false, "/" + strings.Repeat("x", 1023): true,
	} {
		if err := CheckFolder(folder); (err == nil) != valid {
			t.Errorf("%.20q: %v", folder, err)
		}
	}
}

func TestNames(t *testing.T) {
	if name, ok := VolumeName(UniqueName("pvc-1")); !ok || name != "pvc-1" {
		t.Errorf("%q, %v", name, ok)
	}
	if name, ok := VolumeName("kubernetes.io/csi/x"); ok {
		t.Errorf("another plugin's volume is %q", name)
	}
}

func aVolume(change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "v", Annotations: map[string]string{volume.AnnDynamicallyProvisioned: Provisioner},
			Finalizers: []string{Finalizer}, DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)},
		},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, NodeAffinity: OnHost("n1"),
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/v/v"}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased},
	}
	for _, f := range change {
		f(v)
	}
	return v
}

func TestHostOf(t *testing.T) {
	term := func(v *corev1.PersistentVolume) *corev1.NodeSelectorTerm {
		return &v.Spec.NodeAffinity.Required.NodeSelectorTerms[0]
	}
	for name, c := range map[string]struct {
		change func(*corev1.PersistentVolume)
		want   string
	}{
		"one host":     {func(*corev1.PersistentVolume) {}, "n1"},
		"no affinity":  {func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = nil }, ""},
		"no selector":  {func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity.Required = nil }, ""},
		"another kind": {func(v *corev1.PersistentVolume) { v.Spec.Local = nil }, ""},
		"two hosts":    {func(v *corev1.PersistentVolume) { term(v).MatchExpressions[0].Values = []string{"n1", "n2"} }, ""},
		"no host":      {func(v *corev1.PersistentVolume) { term(v).MatchExpressions[0].Values = nil }, ""},
		"empty host":   {func(v *corev1.PersistentVolume) { term(v).MatchExpressions[0].Values = []string{""} }, ""},
		"all but one":  {func(v *corev1.PersistentVolume) { term(v).MatchExpressions[0].Operator = corev1.NodeSelectorOpNotIn }, ""},
		"other key":    {func(v *corev1.PersistentVolume) { term(v).MatchExpressions[0].Key = "zone" }, ""},
		"two terms": {func(v *corev1.PersistentVolume) {
			s := v.Spec.NodeAffinity.Required
			s.NodeSelectorTerms = append(s.NodeSelectorTerms, s.NodeSelectorTerms[0])
		}, ""},
		"two demands": {func(v *corev1.PersistentVolume) {
			term(v).MatchExpressions = append(term(v).MatchExpressions, term(v).MatchExpressions[0])
		}, ""},
		"a field": {func(v *corev1.PersistentVolume) { term(v).MatchFields = []corev1.NodeSelectorRequirement{{}} }, ""},
	} {
		if got, ok := HostOf(aVolume(c.change)); got != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, %v, want %q", name, got, ok, c.want)
		}
	}
}

func TestRemovable(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.PersistentVolume)
		want   bool
	}{
		"released":  {func(*corev1.PersistentVolume) {}, true},
		"failed":    {func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeFailed }, true},
		"bound":     {func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound }, false},
		"available": {func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeAvailable }, false},
		"retained": {func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}, false},
		"not deleted":     {func(v *corev1.PersistentVolume) { v.DeletionTimestamp = nil }, false},
		"no finalizer":    {func(v *corev1.PersistentVolume) { v.Finalizers = []string{"kubernetes.io/pv-protection"} }, false},
		"another's":       {func(v *corev1.PersistentVolume) { v.Annotations[volume.AnnDynamicallyProvisioned] = "other" }, false},
		"made by a human": {func(v *corev1.PersistentVolume) { v.Annotations = nil }, false},
	} {
		if got := Removable(aVolume(c.change)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
