package intern

import (
	"fmt"
	"math/rand"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	ours "github.com/garboard/garboard/libs/scheme"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"app": "a"}, Annotations: map[string]string{"name": name},
			OwnerReferences: []metav1.OwnerReference{{UID: "u"}},
		},
		Spec: corev1.PodSpec{
			Tolerations: []corev1.Toleration{{Key: "k"}},
			Volumes: []corev1.Volume{{Name: "v-" + name, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "c"},
			}}}},
			Containers: []corev1.Container{{
				Name: "c", Args: []string{"a", "b"}, Env: []corev1.EnvVar{{Name: "A", Value: "1"}},
				Resources:     corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
				LivenessProbe: &corev1.Probe{PeriodSeconds: 3}, SecurityContext: &corev1.SecurityContext{},
			}},
			SecurityContext: &corev1.PodSecurityContext{},
		},
	}
}

// word returns the address of a map.
func word(m map[string]string) uintptr { return *(*uintptr)(unsafe.Pointer(&m)) }

func TestShare(t *testing.T) {
	var parts Parts
	a, b := pod("a"), pod("b")
	parts.Share(a)
	parts.Share(b)
	for what, same := range map[string]bool{
		"labels":           word(a.Labels) == word(b.Labels),
		"owners":           &a.OwnerReferences[0] == &b.OwnerReferences[0],
		"tolerations":      &a.Spec.Tolerations[0] == &b.Spec.Tolerations[0],
		"volume's source":  a.Spec.Volumes[0].ConfigMap == b.Spec.Volumes[0].ConfigMap,
		"arguments":        &a.Spec.Containers[0].Args[0] == &b.Spec.Containers[0].Args[0],
		"environment":      &a.Spec.Containers[0].Env[0] == &b.Spec.Containers[0].Env[0],
		"probe":            a.Spec.Containers[0].LivenessProbe == b.Spec.Containers[0].LivenessProbe,
		"security context": a.Spec.SecurityContext == b.Spec.SecurityContext,
	} {
		if !same {
			t.Errorf("the pods do not share the %s", what)
		}
	}
	if word(a.Annotations) == word(b.Annotations) || &a.Spec.Volumes[0] == &b.Spec.Volumes[0] {
		t.Error("the pods share parts that differ")
	}
	for _, p := range []*corev1.Pod{a, b} {
		if diff := cmp.Diff(pod(p.Name), p); diff != "" {
			t.Errorf("sharing changed a pod:\n%s", diff)
		}
	}
}

// TestShareChangesNothing shares random objects and checks that each reads as before.
func TestShareChangesNothing(t *testing.T) {
	table := ours.New()
	var parts Parts
	fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(1), scheme.Codecs).NilChance(0.3).NumElements(0, 2)
	for _, kind := range []*ours.Kind{ours.For[*corev1.Pod](table), ours.For[*corev1.ConfigMap](table)} {
		for n := range 300 {
			obj := kind.New()
			fill.Fill(obj)
			obj.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
			raw, err := table.EncodeStorage(kind, obj)
			if err != nil {
				continue // text that is not UTF-8
			}
			want, err := table.DecodeStorage(kind, raw)
			if err != nil {
				t.Fatal(err)
			}
			// Twice: the second object shares everything with the first.
			for range 2 {
				got, err := table.DecodeStorage(kind, raw)
				if err != nil {
					t.Fatal(err)
				}
				parts.Share(got)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s %d:\n%s", kind.Kind, n, diff)
				}
			}
		}
	}
}

func TestPartsAreBounded(t *testing.T) {
	var parts Parts
	for n := range 3 * maxParts {
		parts.Share(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"n": fmt.Sprint(n)}}})
	}
	if n := len(parts.younger) + len(parts.older); n > 2*maxParts {
		t.Errorf("%d parts are remembered", n)
	}
}

func BenchmarkShare(b *testing.B) {
	var parts Parts
	p := pod("a")
	b.ReportAllocs()
	for b.Loop() {
		parts.Share(p)
	}
}
