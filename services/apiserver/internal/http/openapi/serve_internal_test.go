package openapi

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// library is the library's own handler of the same documents, which keeps them whole in memory.
type library struct{ exact, below map[string]http.Handler }

func (l *library) Handle(path string, h http.Handler)       { l.exact[path] = h }
func (l *library) HandlePrefix(path string, h http.Handler) { l.below[path] = h }

func (l *library) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := l.exact[r.URL.Path]; h != nil {
		h.ServeHTTP(w, r)
		return
	}
	for path, h := range l.below {
		if strings.HasPrefix(r.URL.Path, path) {
			h.ServeHTTP(w, r)
		}
	}
}

func newLibrary(t *testing.T, table *scheme.Table) *library {
	t.Helper()
	l := &library{exact: map[string]http.Handler{}, below: map[string]http.Handler{}}
	d := newDocuments(table, "v1.37.2")
	d.subjects = subjectsOf(table.Kinds(), none)
	v2 := cached.Func(func() (*spec.Swagger, string, error) {
		built, err := d.builtinV2()
		return built, d.version, err
	})
	handler.NewOpenAPIServiceLazy(cached.Once(v2)).RegisterOpenAPIVersionedService(v2Path, l)
	v3 := handler3.NewOpenAPIService()
	for gv, of := range d.byGroupVersion() {
		build := cached.Func(func() (*spec3.OpenAPI, string, error) {
			built, err := of.builtinV3(gv)
			return built, d.version, err
		})
		v3.UpdateGroupVersionLazy(strings.TrimPrefix(rootPath(gv), "/"), cached.Once(build))
	}
	for name, build := range d.discoveryDocuments(table.Kinds()) {
		v3.UpdateGroupVersionLazy(name, cached.Once(cached.Func(func() (*spec3.OpenAPI, string, error) {
			built, err := build()
			return built, d.version, err
		})))
	}
	if err := v3.RegisterOpenAPIV3VersionedService(v3Path, l); err != nil {
		t.Fatal(err)
	}
	return l
}

// answer is what a client sees of a response. Its times are left out.
type answer struct {
	Code   int
	Header http.Header
	Body   string
}

func ask(t testing.TB, h http.Handler, method, target string, header map[string]string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	got := answer{w.Code, w.Header(), w.Body.String()}
	got.Header.Del("Last-Modified")
	if got.Header.Get("Expires") != "" {
		got.Header.Set("Expires", "set")
	}
	if got.Header.Get("Content-Encoding") == "gzip" {
		unzipper, err := gzip.NewReader(bytes.NewReader(w.Body.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(unzipper)
		if err != nil {
			t.Fatal(err)
		}
		got.Body = string(plain)
		got.Header.Del("Content-Length") // Two compressors.
	}
	return got
}

// TestServesAsTheLibrary compares the responses with those of the library's handlers: each document,
// in all encodings, to clients that have it already, or ask for it by a right or a wrong hash.
func TestServesAsTheLibrary(t *testing.T) {
	table := scheme.New()
	ours := New(table, "v1.37.2", none, &Others{})
	theirs := newLibrary(t, table)
	compare := func(method, target string, header map[string]string) answer {
		t.Helper()
		want := ask(t, theirs, method, target, header)
		if diff := cmp.Diff(want, ask(t, ours, method, target, header)); diff != "" {
			t.Errorf("%s %s with %v (-library +ours):\n%.2000s", method, target, header, diff)
		}
		return want
	}
	const (
		v2Proto = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
		v3Proto = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
	)
	apps := v3Path + rootPath(schema.GroupVersion{Group: "apps", Version: "v1"})
	for _, path := range []string{v2Path, v3Path, apps} {
		for _, header := range []map[string]string{
			{}, {"Accept": "application/json"}, {"Accept": "application/*"}, {"Accept": "*/*"},
			{"Accept": "text/html"}, {"Accept": "text/html, */*;q=0.1"},
			{"Accept": v2Proto}, {"Accept": strings.Replace(v2Proto, ".v1", "@v1", 1)},
			{"Accept": v3Proto}, {"Accept": strings.Replace(v3Proto, ".v1", "@v1", 1)},
			{"Accept": "application/json;q=0.5, " + v3Proto + ";q=0.9"},
			{"Accept-Encoding": "gzip"}, {"Accept-Encoding": "deflate, gzip;q=0.5"}, {"Accept-Encoding": "gzip;q=0"}, {"Accept-Encoding": "br"},
			{"If-None-Match": `"other"`}, {"Range": "bytes=10-19"},
		} {
			compare(http.MethodGet, path, header)
		}
		compare(http.MethodHead, path, nil)
		etag := compare(http.MethodGet, path, nil).Header.Get("Etag")
		compare(http.MethodGet, path, map[string]string{"If-None-Match": etag})
		compare(http.MethodGet, path, map[string]string{"If-None-Match": etag, "Accept-Encoding": "gzip"})
		for _, hash := range []string{strings.Trim(etag, `"`), "outdated"} {
			compare(http.MethodGet, path+"?hash="+hash, nil)
			compare(http.MethodGet, path+"?hash="+hash, map[string]string{"Accept": v3Proto})
		}
	}
	for _, kind := range table.Kinds() {
		compare(http.MethodGet, v3Path+rootPath(kind.GroupVersion()), nil)
	}
}

// TestConcurrentRequests has many clients ask for documents that are not built yet.
func TestConcurrentRequests(t *testing.T) {
	ours := New(scheme.New(), "v1.37.2", none, &Others{})
	var clients sync.WaitGroup
	for i := range 16 {
		path := []string{v3Path, v3Path + "/api/v1"}[i%2]
		clients.Go(func() {
			if got := ask(t, ours, http.MethodGet, path, nil); got.Code != http.StatusOK || got.Body == "" {
				t.Errorf("%s: %d, %d bytes", path, got.Code, len(got.Body))
			}
		})
	}
	clients.Wait()
}

// none knows no definition of any kind.
func none(*scheme.Kind) *kinds.Definition { return nil }
