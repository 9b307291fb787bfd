package response_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
)

var kinds = scheme.New()

// stored returns objects of a kind as they come from etcd, each with its stored message.
func stored(t testing.TB, kind *scheme.Kind, n int) (objs []scheme.Object, plain [][]byte) {
	t.Helper()
	for i := range n {
		obj := kind.New()
		obj.SetName(fmt.Sprintf("object-%d", i))
		if kind.Namespaced {
			obj.SetNamespace("default")
		}
		obj.SetUID(types.UID(fmt.Sprintf("uid-%d", i)))
		obj.SetLabels(map[string]string{"number": strings.Repeat("1", i%100), "a": "<&>"})
		if i%2 == 0 {
			obj.SetGeneration(int64(i))
			obj.SetFinalizers([]string{"example.com/f"})
		}
		if pod, ok := obj.(*corev1.Pod); ok {
			pod.Spec.NodeName = "node"
			pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
		}
		data, err := kinds.EncodeStorage(kind, obj)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := kinds.DecodeStorage(kind, data)
		if err != nil {
			t.Fatal(err)
		}
		decoded.SetResourceVersion(strings.Repeat("9", 1+i%7))
		objs, plain = append(objs, decoded), append(plain, scheme.Plain(data, decoded))
	}
	return objs, plain
}

func listOf(kind *scheme.Kind, objs []scheme.Object, plain [][]byte, with metav1.ListMeta) response.List {
	return response.List{
		Kind: kind.ListKind(), Meta: with, Len: len(objs),
		Item: func(i int) (scheme.Object, []byte) { return objs[i], plain[i] },
	}
}

// whole returns the list as the serializer writes it.
func whole(t testing.TB, kind *scheme.Kind, format response.Format, objs []scheme.Object, with metav1.ListMeta) []byte {
	t.Helper()
	list := kind.NewList()
	items := make([]runtime.Object, len(objs))
	for i, obj := range objs {
		items[i] = obj.DeepCopyObject()
		items[i].GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	if err := meta.SetList(list, items); err != nil {
		t.Fatal(err)
	}
	access, err := meta.ListAccessor(list)
	if err != nil {
		t.Fatal(err)
	}
	access.SetResourceVersion(with.ResourceVersion)
	access.SetContinue(with.Continue)
	access.SetRemainingItemCount(with.RemainingItemCount)
	var buffer bytes.Buffer
	if err := format.Serializer().Encode(list, &buffer); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func formats(t testing.TB, e *response.Encoder) map[string]response.Format {
	t.Helper()
	formats := map[string]response.Format{}
	for _, accept := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Accept", accept)
		format, err := e.Negotiate(r)
		if err != nil {
			t.Fatal(err)
		}
		formats[accept] = format
	}
	return formats
}

// TestListsAreAsTheSerializersWriteThem compares every kind's list with the serializer's output,
// byte for byte.
func TestListsAreAsTheSerializersWriteThem(t *testing.T) {
	e := response.New(kinds, slog.New(slog.DiscardHandler))
	rest := int64(7)
	for _, kind := range kinds.Kinds() {
		if !kind.Stored() || kind.Virtual {
			continue
		}
		for accept, format := range formats(t, e) {
			for _, n := range []int{0, 1, 200} {
				objs, plain := stored(t, kind, n)
				for i := range plain {
					// These two are stored as JSON.
					if plain[i] == nil && kind.Kind != "CustomResourceDefinition" && kind.Kind != "APIService" {
						t.Fatalf("the stored message of a %s was not found", kind.Kind)
					}
				}
				if n > 100 {
					plain[50] = nil // This item must be encoded.
				}
				with := metav1.ListMeta{ResourceVersion: "12", Continue: "token", RemainingItemCount: &rest}
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
				w := httptest.NewRecorder()
				if err := e.List(w, r, format, listOf(kind, objs, plain, with)); err != nil {
					t.Fatalf("%s as %s: %v", kind.Kind, accept, err)
				}
				if want := whole(t, kind, format, objs, with); !bytes.Equal(w.Body.Bytes(), want) {
					t.Errorf("%d items of %s as %s:\n got %q\nwant %q", n, kind.Kind, accept, shorten(w.Body.Bytes()), shorten(want))
				}
				if got := w.Header().Get("Content-Type"); got != accept {
					t.Errorf("got content type %q, want %q", got, accept)
				}
			}
		}
	}
}

func shorten(data []byte) []byte { return data[:min(len(data), 2000)] }

// TestLargeListsAreCompressed: lists of 128 KB and more are compressed, and decompress to the same
// bytes.
func TestLargeListsAreCompressed(t *testing.T) {
	e := response.New(kinds, slog.New(slog.DiscardHandler))
	kind := scheme.For[*corev1.Pod](kinds)
	for accept, format := range formats(t, e) {
		for _, n := range []int{10, 3000} {
			objs, plain := stored(t, kind, n)
			want := whole(t, kind, format, objs, metav1.ListMeta{ResourceVersion: "12"})
			for _, encoding := range []string{"", "gzip"} {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
				r.Header.Set("Accept-Encoding", encoding)
				w := httptest.NewRecorder()
				if err := e.List(w, r, format, listOf(kind, objs, plain, metav1.ListMeta{ResourceVersion: "12"})); err != nil {
					t.Fatal(err)
				}
				zipped := encoding == "gzip" && len(want) >= 128<<10
				if got := w.Header().Get("Content-Encoding") == "gzip"; got != zipped {
					t.Errorf("%d items as %s for encoding %q: compressed %t, want %t", n, accept, encoding, got, zipped)
				}
				body := io.Reader(w.Body)
				if zipped {
					var err error
					if body, err = gzip.NewReader(body); err != nil {
						t.Fatal(err)
					}
				}
				got, err := io.ReadAll(body)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%d items as %s for encoding %q: got %v, %d bytes, want %d", n, accept, encoding, err, len(got), len(want))
				}
			}
		}
	}
}

// TestWholeLists checks which formats are not written item by item.
func TestWholeLists(t *testing.T) {
	e := response.New(kinds, slog.New(slog.DiscardHandler))
	for accept, target := range map[string]string{runtime.ContentTypeYAML: "/", runtime.ContentTypeJSON: "/?pretty=true"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
		r.Header.Set("Accept", accept)
		format, err := e.Negotiate(r)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		if err := e.List(w, r, format, response.List{}); !errors.Is(err, response.ErrNotStreamed) || w.Body.Len() > 0 {
			t.Errorf("%s: got %v, body %q, want ErrNotStreamed", accept, err, w.Body)
		}
	}
}

// FuzzSplice splices resourceVersions into arbitrary stored messages.
func FuzzSplice(f *testing.F) {
	kind := scheme.For[*corev1.Pod](kinds)
	objs, plain := stored(f, kind, 3)
	for i := range plain {
		f.Add(plain[i], objs[i].GetResourceVersion())
	}
	e := response.New(kinds, slog.New(slog.DiscardHandler))
	format := formats(f, e)[runtime.ContentTypeProtobuf]
	f.Fuzz(func(t *testing.T, plain []byte, version string) {
		pod := &corev1.Pod{}
		if pod.Unmarshal(plain) != nil {
			return
		}
		pod.ResourceVersion = version
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		if err := e.List(w, r, format, listOf(kind, []scheme.Object{pod}, [][]byte{plain}, metav1.ListMeta{})); err != nil {
			return
		}
		obj, _, err := kinds.Codecs().UniversalDeserializer().Decode(w.Body.Bytes(), nil, nil)
		if err != nil {
			t.Fatalf("the written list cannot be decoded: %v", err)
		}
		list, ok := obj.(*corev1.PodList)
		if !ok || len(list.Items) != 1 || list.Items[0].Name != pod.Name {
			t.Errorf("decoded %+v", obj)
		}
	})
}

func BenchmarkList(b *testing.B) {
	e := response.New(kinds, slog.New(slog.DiscardHandler))
	kind := scheme.For[*corev1.Pod](kinds)
	objs, plain := stored(b, kind, 10_000)
	for accept, format := range formats(b, e) {
		for _, encoding := range []string{"identity", "gzip"} {
			b.Run(accept+" "+encoding, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/", nil)
					r.Header.Set("Accept-Encoding", encoding)
					if err := e.List(discard{http.Header{}}, r, format, listOf(kind, objs, plain, metav1.ListMeta{ResourceVersion: "12"})); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// discard is a client that reads and drops everything.
type discard struct{ header http.Header }

func (d discard) Header() http.Header            { return d.header }
func (d discard) WriteHeader(int)                {}
func (d discard) Write(data []byte) (int, error) { return len(data), nil }
