package envelope_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/scheme/envelope"
)

// pod returns a pod with a manager of fields for each name.
func pod(managers ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1", Labels: map[string]string{"a": "b"}, Finalizers: []string{"x/y"}},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, name := range managers {
		p.ManagedFields = append(p.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: name, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", Time: &metav1.Time{Time: time.Unix(1_800_000_000, 0).UTC()},
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:nodeName":{}}}`),
		})
	}
	return p
}

func enclosed(t testing.TB, object *corev1.Pod, change func(*runtime.Unknown)) []byte {
	t.Helper()
	raw, err := object.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Raw: raw}
	if change != nil {
		change(&unknown)
	}
	return sealed(t, unknown)
}

func opened(t testing.TB, data []byte) *corev1.Pod {
	t.Helper()
	about, message := envelope.Open(data)
	var p corev1.Pod
	if err := p.Unmarshal(message); err != nil {
		t.Fatal(err)
	}
	if !envelope.Names(about, corev1.SchemeGroupVersion.WithKind("Pod")) {
		t.Errorf("the envelope is of %q", about)
	}
	return &p
}

func TestWithoutManagers(t *testing.T) {
	for name, managers := range map[string][]string{"one": {"kubectl"}, "several": {"kubectl", "controllers", "agent"}} {
		if diff := cmp.Diff(pod(), opened(t, envelope.WithoutManagers(enclosed(t, pod(managers...), nil)))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	plain := enclosed(t, pod("kubectl"), nil)
	for name, data := range map[string][]byte{
		"none":              enclosed(t, pod(), nil),
		"text":              []byte(`{"kind":"Pod","metadata":{"managedFields":[{}]}}`),
		"nothing":           nil,
		"another encoding":  enclosed(t, pod("kubectl"), func(u *runtime.Unknown) { u.ContentEncoding = "gzip" }),
		"a broken envelope": plain[:len(plain)-1],
		"a broken message":  enclosed(t, pod(), func(u *runtime.Unknown) { u.Raw = []byte{0x0a, 0x05, 0x8a} }),
		"broken metadata":   enclosed(t, pod(), func(u *runtime.Unknown) { u.Raw = []byte{0x0a, 0x03, 0x8a, 0x01, 0x7f} }),
	} {
		if got := envelope.WithoutManagers(data); !bytes.Equal(got, data) {
			t.Errorf("%s: got %q from %q", name, got, data)
		}
	}
}

// FuzzWithoutManagers checks that nothing but the managers goes: what decodes still does, to the same but for them.
func FuzzWithoutManagers(f *testing.F) {
	f.Add(enclosed(f, pod(), nil))
	f.Add(enclosed(f, pod("kubectl", "agent"), nil))
	f.Add(append(enclosed(f, pod("kubectl"), nil), 0x0a, 0x00))
	f.Add(enclosed(f, pod(), func(u *runtime.Unknown) { u.Raw = append(u.Raw, 0x0a, 0x03, 0x8a, 0x01, 0x00) }))
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		got := envelope.WithoutManagers(data)
		if !bytes.Equal(data, before) {
			t.Fatal("the envelope was changed in place")
		}
		_, message := envelope.Open(data)
		var is, was corev1.Pod
		if was.Unmarshal(message) != nil {
			return
		}
		_, message = envelope.Open(got)
		if err := is.Unmarshal(message); err != nil {
			t.Fatalf("the rest cannot be decoded: %v", err)
		}
		if !bytes.Equal(got, data) && len(is.ManagedFields) > 0 {
			t.Fatal("managers are left")
		}
		is.ManagedFields, was.ManagedFields = nil, nil
		if diff := cmp.Diff(&was, &is); diff != "" {
			t.Fatal(diff)
		}
	})
}
