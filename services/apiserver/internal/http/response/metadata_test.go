package response_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
)

var (
	partial     = schema.GroupVersionKind{Group: metav1.GroupName, Version: "v1", Kind: "PartialObjectMetadata"}
	partialList = schema.GroupVersionKind{Group: metav1.GroupName, Version: "v1", Kind: "PartialObjectMetadataList"}
)

// metadataList writes the list of the metadata of objects.
func metadataList(t testing.TB, e *response.Encoder, format response.Format, objs []scheme.Object, plain [][]byte, with metav1.ListMeta) []byte {
	t.Helper()
	r, w := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), httptest.NewRecorder()
	err := e.List(w, r, format, response.List{
		Kind: partialList, Partial: partial, Meta: with, Len: len(objs), Item: func(i int) (scheme.Object, []byte) { return objs[i], plain[i] },
	})
	if err != nil {
		t.Fatal(err)
	}
	return w.Body.Bytes()
}

// wholeMetadata returns the list as the serializer writes it.
func wholeMetadata(t testing.TB, format response.Format, objs []scheme.Object, with metav1.ListMeta) []byte {
	t.Helper()
	list := &metav1.PartialObjectMetadataList{ListMeta: with, Items: []metav1.PartialObjectMetadata{}}
	list.SetGroupVersionKind(partialList)
	for _, obj := range objs {
		list.Items = append(list.Items, *response.Partial(obj, partial))
	}
	var buffer bytes.Buffer
	if err := format.Serializer().Encode(list, &buffer); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// TestMetadataLists compares the metadata of every kind's objects with the serializer's output, byte for byte.
func TestMetadataLists(t *testing.T) {
	e := response.New(kinds, slog.New(slog.DiscardHandler))
	rest := int64(7)
	with := metav1.ListMeta{ResourceVersion: "12", Continue: "token", RemainingItemCount: &rest}
	for _, kind := range kinds.Kinds() {
		if !kind.Stored() || kind.Virtual {
			continue
		}
		for accept, format := range formats(t, e) {
			for _, n := range []int{0, 1, 20} {
				objs, plain := stored(t, kind, n)
				if n > 10 {
					plain[5] = nil // This item must be encoded.
				}
				got, want := metadataList(t, e, format, objs, plain, with), wholeMetadata(t, format, objs, with)
				if !bytes.Equal(got, want) {
					t.Errorf("%d items of %s as %s:\n got %q\nwant %q", n, kind.Kind, accept, shorten(got), shorten(want))
				}
			}
		}
	}
}

// custom returns an object of a custom kind and its JSON as it is in etcd.
func custom(t testing.TB, text string) (scheme.Object, []byte) {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	obj.SetResourceVersion("345")
	return obj, []byte(text)
}

// TestMetadataOfCustomKinds compares what is cut from the stored JSON with the metadata of the object.
func TestMetadataOfCustomKinds(t *testing.T) {
	const (
		full = `{"apiVersion":"a/v1","kind":"B","metadata":{"annotations":{"x":"\"},{<"},"creationTimestamp":"2026-01-02T03:04:05Z",` +
			`"deletionGracePeriodSeconds":30,"deletionTimestamp":"2026-01-03T03:04:05Z","finalizers":["f"],"generateName":"c-","generation":7,` +
			`"labels":{"spec":"y"},"managedFields":[{"apiVersion":"a/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:a":{}}},"manager":"m",` +
			`"operation":"Apply","subresource":"status","time":"2026-01-02T03:04:05Z"}],"name":"c","namespace":"n","ownerReferences":[{"apiVersion":"v1",` +
			`"blockOwnerDeletion":true,"controller":false,"kind":"K","name":"o","uid":"v"}],"uid":"u"},"spec":{"metadata":{"name":"other"}}}`
		few       = `{"apiVersion":"a/v1","kind":"B","metadata":{"name":"c"}}`
		unknown   = `{"apiVersion":"a/v1","kind":"B","metadata":{"clusterName":"old","name":"c","uid":"u"}}`
		versioned = `{"apiVersion":"a/v1","kind":"B","metadata":{"name":"c","resourceVersion":"1","uid":"u"}}`
		spaced    = `{"apiVersion":"a/v1","kind":"B","metadata": {"name":"c","uid":"u"}}`
	)
	e := response.New(kinds, slog.New(slog.DiscardHandler))
	for name, tt := range map[string]struct {
		text string
		cut  bool
	}{
		"full": {full, true}, "few": {few, true}, "unknown": {unknown, false}, "versioned": {versioned, false}, "spaced": {spaced, false},
	} {
		t.Run(name, func(t *testing.T) {
			obj, plain := custom(t, tt.text)
			data, cut := response.PartialJSON(nil, obj, plain, partial)
			if cut != tt.cut {
				t.Errorf("cut from the JSON: %v, want %v", cut, tt.cut)
			}
			want := response.Partial(obj, partial)
			if cut {
				got := &metav1.PartialObjectMetadata{}
				if err := json.Unmarshal(data, got); err != nil {
					t.Fatalf("%s: %v", data, err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			}
			objs, list := []scheme.Object{obj, obj}, &metav1.PartialObjectMetadataList{}
			for accept, format := range formats(t, e) {
				*list = metav1.PartialObjectMetadataList{}
				text := metadataList(t, e, format, objs, [][]byte{plain, nil}, metav1.ListMeta{ResourceVersion: "12"})
				if err := decode(text, list); err != nil {
					t.Fatalf("%s: %v", accept, err)
				}
				if len(list.Items) != 2 || list.ResourceVersion != "12" {
					t.Fatalf("%s: got %+v", accept, list)
				}
				for i := range list.Items {
					if diff := cmp.Diff(want.ObjectMeta, list.Items[i].ObjectMeta); diff != "" {
						t.Errorf("%s: item %d (-want +got)\n%s", accept, i, diff)
					}
				}
			}
		})
	}
	if _, cut := response.PartialJSON(nil, &corev1.Pod{}, []byte(few), partial); cut {
		t.Error("cut the metadata of a pod from JSON")
	}
}

// decode decodes a list of metadata in either format.
func decode(data []byte, into *metav1.PartialObjectMetadataList) error {
	if !bytes.HasPrefix(data, []byte("k8s\x00")) {
		return json.Unmarshal(data, into)
	}
	var outer runtime.Unknown
	if err := outer.Unmarshal(data[4:]); err != nil {
		return err
	}
	if outer.Kind != partialList.Kind || outer.APIVersion != "meta.k8s.io/v1" {
		return fmt.Errorf("a %s of %s", outer.Kind, outer.APIVersion)
	}
	return into.Unmarshal(outer.Raw)
}

// TestFieldsOfObjectMeta cuts metadata with each field that ObjectMeta has.
func TestFieldsOfObjectMeta(t *testing.T) {
	for field := range reflect.TypeFor[metav1.ObjectMeta]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		obj, plain := custom(t, `{"metadata":{"`+name+`":null}}`)
		_, cut := response.PartialJSON(nil, obj, plain, partial)
		if given := name != "resourceVersion" && name != "selfLink"; cut != given {
			t.Errorf("metadata with %s is cut: %v", name, cut)
		}
	}
}

// FuzzPartialJSON cuts the metadata from any JSON.
func FuzzPartialJSON(f *testing.F) {
	f.Add([]byte(`{"a":"\\","metadata":{"labels":{"a":"\"}"},"name":"c","uid":"u"},"z":[{}]}`))
	f.Add([]byte(`{"metadata":{"uid":"u"`))
	f.Fuzz(func(t *testing.T, data []byte) {
		obj := &unstructured.Unstructured{}
		_, _ = response.PartialJSON(nil, obj, data, partial) // It does not panic, whatever the bytes.
		if json.Unmarshal(data, &obj.Object) != nil || obj.Object == nil {
			return
		}
		text, err := json.Marshal(obj.Object)
		if err != nil {
			t.Fatal(err)
		}
		cut, ok := response.PartialJSON(nil, obj, text, partial)
		if !ok {
			return
		}
		var got struct{ Metadata map[string]any }
		if err := json.Unmarshal(cut, &got); err != nil {
			t.Fatalf("cut %s from %s: %v", cut, text, err)
		}
		delete(got.Metadata, "resourceVersion")
		if want := obj.Object["metadata"]; !reflect.DeepEqual(any(got.Metadata), want) {
			t.Fatalf("cut %s from %s", cut, text)
		}
	})
}

func BenchmarkMetadataList(b *testing.B) {
	e := response.New(kinds, slog.New(slog.DiscardHandler))
	kind := scheme.For[*corev1.Pod](kinds)
	pods, messages := stored(b, kind, 10_000)
	gadgets, texts := make([]scheme.Object, len(pods)), make([][]byte, len(pods))
	for i := range gadgets {
		gadgets[i], texts[i] = custom(b, fmt.Sprintf(`{"apiVersion":"a/v1","kind":"B","metadata":{"creationTimestamp":"2026-01-02T03:04:05Z",`+
			`"generation":1,"labels":{"a":"b"},"managedFields":[{"apiVersion":"a/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:a":{},"f:b":{}}},`+
			`"manager":"m","operation":"Apply","time":"2026-01-02T03:04:05Z"}],"name":"c-%d","namespace":"n","uid":"u"},"spec":{"a":1,"b":2}}`, i))
	}
	for accept, format := range formats(b, e) {
		for name, of := range map[string]struct {
			objs  []scheme.Object
			plain [][]byte
		}{"pods": {pods, messages}, "custom": {gadgets, texts}} {
			b.Run(name+" "+accept, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					metadataList(b, e, format, of.objs, of.plain, metav1.ListMeta{ResourceVersion: "12"})
				}
			})
		}
	}
}
