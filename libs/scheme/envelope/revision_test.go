package envelope_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/scheme/envelope"
)

// of returns the envelope of an object.
func of(t testing.TB, kind string, obj interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	raw, err := obj.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return sealed(t, runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: raw})
}

func aPod() *corev1.Pod {
	now := metav1.Unix(1, 0)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: 3, ResourceVersion: "17", Labels: map[string]string{"b": "c"}, DeletionTimestamp: &now},
		Spec:       corev1.PodSpec{NodeName: "n"},
	}
}

func TestResourceVersion(t *testing.T) {
	pod := aPod()
	bare := pod.DeepCopy()
	bare.ResourceVersion = ""
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "18", Continue: "c"}, Items: []corev1.Pod{*pod}}
	status := &metav1.Status{ListMeta: metav1.ListMeta{ResourceVersion: "19"}, Status: metav1.StatusFailure}
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"an object":         {of(t, "Pod", pod), "17"},
		"a list":            {of(t, "PodList", list), "18"},
		"an object without": {of(t, "Pod", bare), ""},
		"a list without":    {of(t, "PodList", &corev1.PodList{Items: list.Items}), ""},
		"a status":          {of(t, "Status", status), ""},
		"no kind":           {of(t, "", pod), ""},
		"an empty object":   {of(t, "Pod", &corev1.Pod{}), ""},
		"two of metadata":   {sealed(t, runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "Pod"}, Raw: []byte{0x0a, 0x00, 0x0a, 0x03, 0x32, 0x01, '7'}}), ""},
		"two versions":      {sealed(t, runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "Pod"}, Raw: []byte{0x0a, 0x06, 0x32, 0x01, '7', 0x32, 0x01, '8'}}), ""},
		"a number":          {sealed(t, runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "Pod"}, Raw: []byte{0x0a, 0x02, 0x30, 0x07}}), ""},
		"broken":            {of(t, "Pod", pod)[:30], ""},
		"text":              {[]byte(`{"metadata":{"resourceVersion":"17"}}`), ""},
		"nothing":           {nil, ""},
	} {
		if got, found := envelope.ResourceVersion(tt.data); got != tt.want || found != (tt.want != "") {
			t.Errorf("%s: got %q, %v; want %q", name, got, found, tt.want)
		}
	}
}

// FuzzResourceVersion: a version that is found is that of the decoded object.
func FuzzResourceVersion(f *testing.F) {
	f.Add(of(f, "Pod", aPod()))
	f.Add(of(f, "Pod", &corev1.Pod{}))
	f.Add(sealed(f, runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "Pod"}, Raw: []byte{0x0a, 0x00, 0x0a, 0x03, 0x32, 0x01, '7'}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, found := envelope.ResourceVersion(data)
		var unknown runtime.Unknown
		if !found || unknown.Unmarshal(data[len(envelope.Prefix):]) != nil || unknown.Kind != "Pod" {
			return
		}
		var pod corev1.Pod
		if err := pod.Unmarshal(unknown.Raw); err == nil && pod.ResourceVersion != got {
			t.Fatalf("got %q, want %q", got, pod.ResourceVersion)
		}
	})
}
