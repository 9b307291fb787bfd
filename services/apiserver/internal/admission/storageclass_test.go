package admission

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func storageClass(name string, age time.Duration, change ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age)), Annotations: map[string]string{}}}
	for _, f := range change {
		f(c)
	}
	return c
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
			w := newWorld()
			for _, c := range tc.classes {
				w.put(c)
			}
			pvc := claim("1Gi")
			if tc.claim != nil {
				tc.claim(pvc)
			}
			if _, err := w.try(t, &Request{Object: pvc}, nil, "DefaultStorageClass"); err != nil {
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
	w := newWorld(storageClass("grows", 0, func(c *storagev1.StorageClass) { c.AllowVolumeExpansion = &yes }), storageClass("fixed", 0))
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
			_, err := w.try(t, &Request{Verb: Update, Object: tc.new, Old: tc.old}, nil, "PersistentVolumeClaimResize")
			refused(t, err, tc.want)
		})
	}
}

func TestAlwaysPullImages(t *testing.T) {
	given := func(policy corev1.PullPolicy) *corev1.Pod {
		return pod(func(p *corev1.Pod) {
			p.Spec.Containers[0].ImagePullPolicy = policy
			p.Spec.InitContainers = []corev1.Container{{Name: "i", ImagePullPolicy: policy}}
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{PullPolicy: policy}}}}
		})
	}
	w := newWorld()
	p := given(corev1.PullNever)
	if _, err := w.try(t, &Request{Object: p}, nil, "AlwaysPullImages"); err != nil {
		t.Fatal(err)
	}
	if p.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways || p.Spec.InitContainers[0].ImagePullPolicy != corev1.PullAlways || p.Spec.Volumes[0].Image.PullPolicy != corev1.PullAlways {
		t.Errorf("got %+v", p.Spec)
	}
	old := given(corev1.PullNever)
	if _, err := w.try(t, &Request{Verb: Update, Object: old, Old: old.DeepCopy()}, nil, "AlwaysPullImages"); err != nil || old.Spec.Containers[0].ImagePullPolicy != corev1.PullNever {
		t.Errorf("an update without new images: got %v, %+v", err, old.Spec.Containers)
	}
	err := checkPullImages(t.Context(), &Request{Verb: Create, Kind: w.table.KindOf(p), Name: "p", Object: given(corev1.PullNever)})
	refused(t, err, `spec.initContainers[0].imagePullPolicy: Unsupported value: "Never": supported values: "Always"`)
}
