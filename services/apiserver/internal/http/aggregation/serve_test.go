package aggregation

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/services/apiserver/internal/http/upgradetest"
)

// told is what a server tells of a request.
func told(w http.ResponseWriter, r *http.Request) {
	var remote []string
	for name, values := range r.Header {
		if strings.HasPrefix(name, "X-Remote-") || name == "Authorization" || name == "Audit-Id" {
			remote = append(remote, fmt.Sprintf("%s=%s", name, strings.Join(values, ",")))
		}
	}
	slices.Sort(remote)
	_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.RequestURI(), strings.Join(remote, " "))
}

// jane is what a server hears of the user.
const jane = "Audit-Id=audit-1 X-Remote-Extra-Example.com%2fscope=a,b X-Remote-Group=devs,system:authenticated X-Remote-Uid=u1 X-Remote-User=jane"

// TestPassesOn checks what a server hears of a request, whatever the client sends with it.
func TestPassesOn(t *testing.T) {
	w := newWorld(t, told)
	for _, tc := range []struct {
		name, method, path string
		header             http.Header
		want               string
	}{
		{"a collection", "GET", "/apis/wardle.example.com/v1/flunders?limit=5", nil, "GET /apis/wardle.example.com/v1/flunders?limit=5 " + jane},
		{"discovery", "GET", "/apis/wardle.example.com/v1", nil, "GET /apis/wardle.example.com/v1 " + jane},
		{"a write", "DELETE", "/apis/wardle.example.com/v1/namespaces/a/flunders/b", nil, "DELETE /apis/wardle.example.com/v1/namespaces/a/flunders/b " + jane},
		{"another user", "GET", "/apis/wardle.example.com/v1/x", http.Header{
			"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}, "X-Remote-Extra-More": {"x"}, "X-Remote-Uid": {"0"},
		}, "GET /apis/wardle.example.com/v1/x " + jane},
		{"headers for the next hop alone", "GET", "/apis/wardle.example.com/v1/x", http.Header{
			"Connection": {"X-Remote-User, X-Remote-Group, X-Remote-Extra-Example.com%2fscope"},
		}, "GET /apis/wardle.example.com/v1/x " + jane},
		{"an escaped path", "GET", "/apis/wardle.example.com/v1/flunders/a%2Fb", nil, "GET /apis/wardle.example.com/v1/flunders/a%2Fb " + jane},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if code, body := w.ask(tc.method, tc.path, tc.header); code != http.StatusOK || body != tc.want {
				t.Errorf("got %d %s,\nwant %s", code, body, tc.want)
			}
		})
	}
	for _, path := range []string{
		"/apis", "/apis/wardle.example.com", "/apis/wardle.example.com/v2/flunders", "/apis/other/v1/flunders", "/api/v1/pods", "/", "/apis//v1",
		"/openapi/v3/apis/wardle.example.com/v1", "/openapi/v3", "/openapi/v2", "/apiswardle.example.com/v1",
	} {
		if code, _ := w.ask(http.MethodGet, path, nil); code != http.StatusTeapot {
			t.Errorf("%s is passed on: %d", path, code)
		}
	}
}

// TestRefusals checks what a client gets when an API cannot be reached.
func TestRefusals(t *testing.T) {
	type change = func(*world, *apiregistrationv1.APIService)
	for name, tc := range map[string]struct {
		change change
		serve  http.HandlerFunc
		code   int
		text   string
	}{
		"not available": {change: func(_ *world, s *apiregistrationv1.APIService) {
			s.Status.Conditions[0].Status, s.Status.Conditions[0].Message = apiregistrationv1.ConditionFalse, "it is down"
		}, code: 503, text: "service unavailable: the APIService v1.wardle.example.com: it is down"},
		"never checked":   {change: func(_ *world, s *apiregistrationv1.APIService) { s.Status.Conditions = nil }, code: 503, text: "service unavailable"},
		"no endpoint":     {change: func(w *world, _ *apiregistrationv1.APIService) { w.refused = errors.New("no endpoints available") }, code: 503, text: "no endpoints available"},
		"another Service": {change: func(_ *world, s *apiregistrationv1.APIService) { s.Spec.Service.Name = "b" }, code: 503, text: "no such service"},
		"a faulty bundle": {change: func(_ *world, s *apiregistrationv1.APIService) { s.Spec.CABundle = []byte("x") }, code: 500, text: "is faulty: unable to load root certificates"},
		"another authority": {change: func(w *world, s *apiregistrationv1.APIService) { s.Spec.CABundle = authority(w.t) }, code: 503,
			text: "certificate signed by unknown authority"},
		"a redirect": {serve: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/api/v1/secrets", http.StatusFound) }, code: 502,
			text: "the backend attempted to redirect this request, which is not permitted"},
		"no certificate of ours": {change: func(w *world, _ *apiregistrationv1.APIService) {
			w.apis.cfg.Certificate = func() (*tls.Certificate, error) { return nil, errors.New("there is none") }
		}, code: 503, text: "there is none"},
		"it hangs up": {serve: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, code: 503, text: "service unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			serve := tc.serve
			if serve == nil {
				serve = told
			}
			w := newWorld(t, serve)
			s := w.service()
			if tc.change != nil {
				tc.change(w, s)
			}
			s.Spec.VersionPriority++ // so that it is another
			w.keep(s)
			if code, body := w.ask(http.MethodGet, "/apis/wardle.example.com/v1/flunders", nil); code != tc.code || !strings.Contains(body, tc.text) {
				t.Errorf("got %d %s, want %d %q", code, body, tc.code, tc.text)
			}
		})
	}
}

// TestInsecure checks that a certificate is not verified if the APIService says so.
func TestInsecure(t *testing.T) {
	w := newWorld(t, told)
	s := w.service()
	s.Spec.CABundle, s.Spec.InsecureSkipTLSVerify = nil, true
	w.keep(s)
	if code, body := w.ask(http.MethodGet, "/apis/wardle.example.com/v1/flunders", nil); code != http.StatusOK {
		t.Errorf("got %d %s", code, body)
	}
}

// TestWatchEnds checks that events of a watch arrive as they come, and that a watch ends when the server shuts
// down.
func TestWatchEnds(t *testing.T) {
	ended := make(chan struct{})
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		defer close(ended)
		_, _ = io.WriteString(rw, "event\n")
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.front.URL+"/apis/wardle.example.com/v1/flunders?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewReader(response.Body)
	if line, err := lines.ReadString('\n'); line != "event\n" || err != nil {
		t.Fatalf("got %q, %v", line, err)
	}
	if n := w.gate.EndWatches(t.Context(), time.Millisecond); n != 1 {
		t.Errorf("%d watches ended", n)
	}
	if rest, err := io.ReadAll(lines); len(rest) > 0 {
		t.Errorf("got %q, %v", rest, err)
	}
	<-ended
}

// TestUpgrade checks that an upgraded connection is passed on, with the user, in both directions.
func TestUpgrade(t *testing.T) {
	w := newWorld(t, upgradetest.Echo)
	upgradetest.Check(t, w.front.URL, "/apis/wardle.example.com/v1/namespaces/a/flunders/b/exec")
}
