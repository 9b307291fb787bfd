package zpages

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPages checks what the pages say as text and as objects, and which other forms they refuse.
func TestPages(t *testing.T) {
	mux := http.NewServeMux()
	Serve(mux, "v1.37.2", []string{"/livez", "/apis"}, func() map[string]string { return map[string]string{"etcd-prefix": "/registry"} })
	bare := http.NewServeMux()
	Serve(bare, "v1.37.2", nil, nil)
	for _, tc := range []struct {
		mux          *http.ServeMux
		path, accept string
		code         int
		says         string
	}{
		{mux, "/statusz", "text/plain", 200, "apiserver statusz"},
		{mux, "/statusz", "text/plain", 200, "/livez"},
		{mux, "/statusz", "text/plain", 200, "1.37.2"},
		{mux, "/statusz", "application/json;as=Statusz;v=v1beta1;g=config.k8s.io", 200, `"kind":"Statusz"`},
		{mux, "/flagz", "text/plain", 200, "etcd-prefix"},
		{mux, "/flagz", "application/json;as=Flagz;v=v1beta1;g=config.k8s.io", 200, `"etcd-prefix":"/registry"`},
		{mux, "/flagz", "application/vnd.kubernetes.protobuf", 406, ""},
		{bare, "/flagz", "text/plain", 404, ""},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, tc.path, nil)
		r.Header.Set("Accept", tc.accept)
		tc.mux.ServeHTTP(w, r)
		if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.says) {
			t.Errorf("%s as %s: got %d %s, want %d %s", tc.path, tc.accept, w.Code, w.Body.String(), tc.code, tc.says)
		}
	}
}
