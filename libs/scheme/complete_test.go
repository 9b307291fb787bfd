package scheme_test

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
)

// fillProbes sets the default period of probes, a number whose encoding has the same size as no
// period.
func fillProbes(obj scheme.Object) error {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil
	}
	for i := range pod.Spec.Containers {
		if probe := pod.Spec.Containers[i].LivenessProbe; probe != nil && probe.PeriodSeconds == 0 {
			probe.PeriodSeconds = 10
		}
	}
	return nil
}

// TestComplete checks that the result contains the filled-in fields. If nothing was filled in, the
// bytes stay the same, including unknown fields.
func TestComplete(t *testing.T) {
	table := scheme.New()
	kind := scheme.For[*corev1.Pod](table)
	pod := func(period int32) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "a", UID: "u"}}
		p.SetGroupVersionKind(kind.GroupVersionKind)
		p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", LivenessProbe: &corev1.Probe{PeriodSeconds: period}}}
		return p
	}
	encoded := func(p *corev1.Pod) []byte {
		data, err := table.EncodeStorage(kind, p)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	inJSON := func(p *corev1.Pod) []byte {
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	// An unknown field number, after all others of the envelope's object.
	odd := encoded(pod(5))
	for name, c := range map[string]struct {
		data []byte
		want []byte // nil if data must stay unchanged
	}{
		"whole":                 {data: encoded(pod(5))},
		"lacking":               {data: encoded(pod(0)), want: encoded(pod(10))},
		"complete, in JSON":     {data: inJSON(pod(5))},
		"incomplete, in JSON":   {data: inJSON(pod(0)), want: encoded(pod(10))},
		"with an unknown field": {data: append(odd, 0x2a, 0x01, 0x78)}, // an unknown field of the envelope
	} {
		obj, err := table.DecodeStorage(kind, c.data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		obj.SetResourceVersion("7")
		got, err := table.Complete(kind, c.data, obj, fillProbes)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if obj.GetResourceVersion() != "7" {
			t.Errorf("%s: the resourceVersion is now %q", name, obj.GetResourceVersion())
		}
		if same := &got[0] == &c.data[0]; same != (c.want == nil) {
			t.Errorf("%s: the same bytes: %t", name, same)
		}
		if c.want != nil && string(got) != string(c.want) {
			t.Errorf("%s: got  %q\nwant %q", name, got, c.want)
		}
		if probe := obj.(*corev1.Pod).Spec.Containers[0].LivenessProbe; probe.PeriodSeconds == 0 {
			t.Errorf("%s: the object was not filled in", name)
		}
	}
}

func BenchmarkComplete(b *testing.B) {
	table := scheme.New()
	kind := scheme.For[*corev1.Pod](table)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "a", UID: "u", Labels: map[string]string{"app": "x", "tier": "y"}}}
	p.SetGroupVersionKind(kind.GroupVersionKind)
	for _, name := range []string{"a", "b"} {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: name, Image: "registry.example.com/team/image:1.2.3", Env: []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "C", Value: "d"}},
			LivenessProbe: &corev1.Probe{PeriodSeconds: 10}, VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}},
		})
	}
	data, err := table.EncodeStorage(kind, p)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := table.DecodeStorage(kind, data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("complete", func(b *testing.B) {
		obj, err := table.DecodeStorage(kind, data)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := table.Complete(kind, data, obj, fillProbes); err != nil {
				b.Fatal(err)
			}
		}
	})
}
