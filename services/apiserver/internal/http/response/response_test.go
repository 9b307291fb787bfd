package response_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newEncoder() *response.Encoder {
	return response.New(scheme.New(), slog.New(slog.DiscardHandler))
}

func request(accept string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	return r
}

func TestNegotiate(t *testing.T) {
	table := metav1.SchemeGroupVersion.WithKind("Table")
	e := newEncoder()
	const js, yaml, protobuf = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
	for accept, want := range map[string]string{
		"":                                  js,
		"*/*":                               js,
		"application/*":                     js,
		"application/yaml":                  yaml,
		protobuf + "," + js:                 protobuf,
		"text/html, */*;q=0.1":              js,
		js + ";q=0.5," + yaml:               yaml,
		js + ";q=0," + yaml:                 yaml,
		js + ";q=x," + yaml:                 yaml,
		"image/png":                         "",
		"///":                               "",
		js + ";as=Table;v=v1;g=meta.k8s.io": js + " Table",
		js + ";as=Table;v=v1beta1;g=meta.k8s.io," + js:      js,
		protobuf + ";as=Table;v=v1;g=meta.k8s.io," + js:     js,
		js + ";as=Rocket;v=v1;g=meta.k8s.io":                "",
		"application/json;as=Table;v=v1;g=meta.k8s.io;q=.1": js + " Table",
	} {
		format, err := e.Negotiate(request(accept), table)
		got := format.Info.MediaType
		if format.As.Kind != "" {
			got += " " + format.As.Kind
		}
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: got %q, %v; want %q", accept, got, err, want)
		}
		if err != nil && apierrors.ReasonForError(err) != metav1.StatusReasonNotAcceptable {
			t.Errorf("%q: got error %v, want 406", accept, err)
		}
	}
}

func TestErrors(t *testing.T) {
	e := newEncoder()
	// Each error becomes a Status, also for a client that wants a picture.
	for name, c := range map[string]struct {
		err    error
		code   int
		reason metav1.StatusReason
	}{
		"an API error":        {apierrors.NewNotFound(corev1.Resource("pods"), "p"), 404, metav1.StatusReasonNotFound},
		"a wrapped API error": {fmt.Errorf("reading: %w", apierrors.NewConflict(corev1.Resource("pods"), "p", errors.New("x"))), 409, metav1.StatusReasonConflict},
		"another error":       {errors.New("etcd is away"), 500, metav1.StatusReasonInternalError},
		"a timeout":           {fmt.Errorf("reading: %w", context.DeadlineExceeded), 504, metav1.StatusReasonTimeout},
		"a client that left":  {fmt.Errorf("reading: %w", context.Canceled), 500, metav1.StatusReasonServerTimeout},
		"a status of its own": {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: "Odd"}}, 500, "Odd"},
		"a bad method":        {response.MethodNotAllowed(), 405, metav1.StatusReasonMethodNotAllowed},
		"a bad body":          {response.UnsupportedMediaType([]string{"application/json"}), 415, metav1.StatusReasonUnsupportedMediaType},
		"too many requests":   {response.TooManyRequests(7), 429, metav1.StatusReasonTooManyRequests},
	} {
		w := httptest.NewRecorder()
		e.Error(w, request("image/png"), c.err)
		var status metav1.Status
		if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if w.Code != c.code || status.Reason != c.reason || status.Kind != "Status" || status.APIVersion != "v1" || status.Status != "Failure" {
			t.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
		if retry := w.Header().Get("Retry-After"); (retry == "7") != (c.code == 429) {
			t.Errorf("%s: got Retry-After %q", name, retry)
		}
	}
}

func FuzzNegotiate(f *testing.F) {
	f.Add("application/json;as=Table;v=v1;g=meta.k8s.io,application/json;q=0.1")
	e := newEncoder()
	f.Fuzz(func(t *testing.T, accept string) {
		r := request("")
		r.Header.Set("Accept", accept)
		format, err := e.NegotiateStream(r)
		if err == nil && (format.Info.StreamSerializer == nil || format.As.Kind != "") {
			t.Errorf("%q negotiates %+v", accept, format)
		}
	})
}

// TestCaching: what a handler says about caches is kept, and without a word no cache keeps it.
func TestCaching(t *testing.T) {
	for given, want := range map[string]string{"": "no-cache, private", "no-store": "no-store"} {
		w := httptest.NewRecorder()
		if given != "" {
			w.Header().Set("Cache-Control", given)
		}
		newEncoder().Bytes(w, request(""), http.StatusOK, "text/plain", []byte("x"))
		if got := w.Header().Get("Cache-Control"); got != want || w.Body.String() != "x" {
			t.Errorf("after %q it is %q, with the body %q", given, got, w.Body)
		}
	}
}

// TestNegotiateCustom checks that objects of a custom kind have no protobuf form, although their
// metadata has.
func TestNegotiateCustom(t *testing.T) {
	partial := metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")
	e := newEncoder()
	const js, protobuf = "application/json", "application/vnd.kubernetes.protobuf"
	for accept, want := range map[string]string{
		"": js, protobuf + "," + js: js, protobuf: "",
		protobuf + ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io": protobuf,
	} {
		for stream, negotiate := range map[bool]func(*http.Request, ...schema.GroupVersionKind) (response.Format, error){
			false: e.NegotiateCustom, true: e.NegotiateCustomStream,
		} {
			format, err := negotiate(request(accept), partial)
			if format.Info.MediaType != want || (err == nil) != (want != "") {
				t.Errorf("%q, stream %t: got %q, %v, want %q", accept, stream, format.Info.MediaType, err, want)
			}
			if err != nil && strings.Contains(err.Error(), protobuf) {
				t.Errorf("the error offers protobuf: %v", err)
			}
		}
	}
}
