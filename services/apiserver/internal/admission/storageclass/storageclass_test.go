package storageclass

import (
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// try admits a request by the plugin alone, and returns the warnings.
func try(t *testing.T, w *admissiontest.World, req *admission.Request) ([]string, error) {
	t.Helper()
	return w.Admit(t, req, Default(w.Objects()), ClaimResize(w.Objects()))
}

func storageClass(name string, age time.Duration, change ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age)), Annotations: map[string]string{}}}
	for _, f := range change {
		f(c)
	}
	return c
}

func claim(size string) *corev1.PersistentVolumeClaim {
	requests := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data"},
		Spec:       corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: requests}},
	}
}

func TestDefaultStorageClass(t *testing.T) {
	isDefault := func(c *storagev1.StorageClass) { c.Annotations["storageclass.kubernetes.io/is-default-class"] = "true" }
	isNot := func(c *storagev1.StorageClass) {
		c.Annotations["storageclass.kubernetes.io/is-default-class"] = "false"
	}
	beta := func(c *storagev1.StorageClass) {
		c.Annotations["storageclass.beta.kubernetes.io/is-default-class"] = "true"
	}
	none, own := "", "own"
	for _, tc := range []struct {
		name    string
		classes []*storagev1.StorageClass
		claim   func(*corev1.PersistentVolumeClaim)
		want    string
	}{
		{"no default", []*storagev1.StorageClass{storageClass("a", 0, isNot)}, nil, "<none>"},
		{"one default", []*storagev1.StorageClass{storageClass("a", 0), storageClass("b", time.Hour, isDefault)}, nil, "b"},
		{"the beta annotation", []*storagev1.StorageClass{storageClass("b", 0, beta)}, nil, "b"},
		{"the newest of several", []*storagev1.StorageClass{storageClass("a", time.Hour, isDefault), storageClass("b", time.Minute, isDefault), storageClass("c", time.Hour, isDefault)}, nil, "b"},
		{"the first by name of the same age", []*storagev1.StorageClass{storageClass("b", 0, isDefault), storageClass("a", 0, isDefault)}, nil, "a"},
		{"a named class", []*storagev1.StorageClass{storageClass("a", 0, isDefault)}, func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &own }, "own"},
		{"an empty name", []*storagev1.StorageClass{storageClass("a", 0, isDefault)}, func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &none }, ""},
		{"a class named by the beta annotation", []*storagev1.StorageClass{storageClass("a", 0, isDefault)}, func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "own"}
		}, "<none>"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := admissiontest.New()
			for _, c := range tc.classes {
				w.Put(c)
			}
			pvc := claim("1Gi")
			if tc.claim != nil {
				tc.claim(pvc)
			}
			if _, err := try(t, w, &admission.Request{Object: pvc}); err != nil {
				t.Fatal(err)
			}
			got := "<none>"
			if pvc.Spec.StorageClassName != nil {
				got = *pvc.Spec.StorageClassName
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestPersistentVolumeClaimResize(t *testing.T) {
	yes := true
	w := admissiontest.New(storageClass("grows", 0, func(c *storagev1.StorageClass) { c.AllowVolumeExpansion = &yes }), storageClass("fixed", 0))
	of := func(class, size string) *corev1.PersistentVolumeClaim {
		c := claim(size)
		c.Spec.StorageClassName = &class
		return c
	}
	const no = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
	for _, tc := range []struct {
		name     string
		old, new *corev1.PersistentVolumeClaim
		want     string
	}{
		{"same size", of("fixed", "1Gi"), of("fixed", "1Gi"), ""},
		{"grows", of("grows", "1Gi"), of("grows", "2Gi"), ""},
		{"grows in a fixed class", of("fixed", "1Gi"), of("fixed", "2Gi"), no},
		{"grows without a class", of("", "1Gi"), of("", "2Gi"), no},
		{"grows in a missing class", of("gone", "1Gi"), of("gone", "2Gi"), no},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := try(t, w, &admission.Request{Verb: admission.Update, Object: tc.new, Old: tc.old})
			admissiontest.Refused(t, err, tc.want)
		})
	}
}
