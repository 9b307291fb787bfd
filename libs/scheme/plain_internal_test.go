package scheme

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/scheme/envelope"
)

// theirs decodes as Kubernetes' serializers do.
func theirs(table *Table, kind *Kind, data []byte) (runtime.Object, bool) {
	obj, gvk, err := table.codecs.UniversalDeserializer().Decode(data, nil, nil)
	return obj, err == nil && *gvk == kind.Storage
}

// enveloped returns an envelope with a message.
func enveloped(t testing.TB, unknown runtime.Unknown) []byte {
	t.Helper()
	data, err := unknown.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte(envelope.Prefix), data...)
}

// TestEveryKindIsDecodedPlainly: the short way is that of every kind that etcd holds as protobuf, with the same result.
func TestEveryKindIsDecodedPlainly(t *testing.T) {
	table := New()
	plain := 0
	for _, kind := range table.Kinds() {
		if !kind.Stored() || kind.etcd != nil {
			continue
		}
		obj := kind.New()
		obj.SetName("a")
		obj.SetLabels(map[string]string{"b": "c"})
		data, err := table.EncodeStorage(kind, obj)
		if err != nil {
			t.Fatal(err)
		}
		want, ok := theirs(table, kind, data)
		got := kind.decodePlain(data)
		if got == nil || !ok || !reflect.DeepEqual(runtime.Object(got), want) {
			t.Errorf("%s: got %+v, want %+v", kind.GroupVersionKind, got, want)
		}
		plain++
	}
	if plain < 50 {
		t.Errorf("only %d kinds were tried", plain)
	}
}

// TestOtherFormsAreNotDecodedPlainly: whatever the short way does not know for certain is left to the serializers.
func TestOtherFormsAreNotDecodedPlainly(t *testing.T) {
	table := New()
	kind := For[*corev1.Pod](table)
	raw, err := (&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	about := runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	good := enveloped(t, runtime.Unknown{TypeMeta: about, Raw: raw})
	if kind.decodePlain(good) == nil {
		t.Fatal("a plain pod was not decoded")
	}
	for name, data := range map[string][]byte{
		"nothing":            nil,
		"text":               []byte(`{"apiVersion":"v1","kind":"Pod"}`),
		"the prefix alone":   []byte(envelope.Prefix),
		"another kind":       enveloped(t, runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Node"}, Raw: raw}),
		"another version":    enveloped(t, runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v2", Kind: "Pod"}, Raw: raw}),
		"another encoding":   enveloped(t, runtime.Unknown{TypeMeta: about, Raw: raw, ContentEncoding: "gzip"}),
		"other content":      enveloped(t, runtime.Unknown{TypeMeta: about, Raw: raw, ContentType: "application/json"}),
		"a broken message":   enveloped(t, runtime.Unknown{TypeMeta: about, Raw: []byte("\xff\xff")}),
		"a broken envelope":  good[:len(good)-1],
		"two types":          append(append([]byte{}, good...), 0x0a, 0x00),
		"a field of numbers": append(append([]byte{}, good...), 0x28, 0x01),
	} {
		if got := kind.decodePlain(data); got != nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// FuzzPlain: whatever the short way accepts, Kubernetes' serializers decode to the same object.
func FuzzPlain(f *testing.F) {
	table := New()
	kind := For[*corev1.Pod](table)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"b": "c"}}, Spec: corev1.PodSpec{NodeName: "n"}}
	data, err := table.EncodeStorage(kind, pod)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(append(append([]byte{}, data...), 0x0a, 0x00))
	f.Add(enveloped(f, runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Raw: []byte{0x0a, 0x00}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		got := kind.decodePlain(data)
		if got == nil {
			return
		}
		if want, ok := theirs(table, kind, data); !ok || !reflect.DeepEqual(runtime.Object(got), want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

// TestKindsOfNoTableAreDecoded: a kind that only etcd knows, as the apiserver's range of ports, has no Go type of its own.
func TestKindsOfNoTableAreDecoded(t *testing.T) {
	table := New()
	gvk := corev1.SchemeGroupVersion.WithKind("RangeAllocation")
	kind := &Kind{GroupVersionKind: gvk, Resource: "rangeallocations", StoragePrefix: "ranges", Storage: gvk}
	data, err := table.EncodeStorage(kind, &corev1.RangeAllocation{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Range: "1-2"})
	if err != nil {
		t.Fatal(err)
	}
	obj, err := table.DecodeStorage(kind, data)
	if got, ok := obj.(*corev1.RangeAllocation); err != nil || !ok || got.Range != "1-2" {
		t.Errorf("got %+v, %v", obj, err)
	}
}
