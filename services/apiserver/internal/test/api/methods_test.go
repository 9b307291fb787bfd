package api_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestMethods sends methods that few clients use. The codes are kube-apiserver's: its own routes know
// GET alone, while health checks, metrics, OpenAPI and the aggregator's documents take every method.
func TestMethods(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	admin, poor := s.Admin(), s.Service("system:kube-scheduler")
	const pods = "/api/v1/namespaces/default/pods"
	for path, code := range map[string]int{
		pods: 405, pods + "/x": 405, pods + "/x/log": 405, pods + "/x/status": 405, "/api/v1/watch/pods": 405, "/apis/apps/v1/deployments": 405,
		"/version": 405, "/version/": 405, "/api": 405, "/api/v1": 405, "/apis/apps/v1": 405, "/.well-known/openid-configuration": 405, "/openid/v1/jwks": 405,
		"/": 200, "/apis": 200, "/apis/apps": 200, "/livez": 200, "/readyz": 200, "/healthz/ping": 200, "/metrics": 200, "/openapi/v2": 200, "/openapi/v3": 200,
		"/openapi/v3/apis/apps/v1": 200, "/api/v1/rockets": 404, "/nothing": 404,
	} {
		for _, method := range []string{"HEAD", "OPTIONS"} {
			res, body := s.Exchange(admin, method, path, "", nil)
			if res.StatusCode != code {
				t.Errorf("%s %s: got %s %.200s, want %d", method, path, res.Status, body, code)
			}
			var status metav1.Status
			switch {
			case method == "HEAD":
				if body != "" {
					t.Errorf("HEAD %s has the body %.200s", path, body)
				}
			case code == 405:
				if err := json.Unmarshal([]byte(body), &status); err != nil || status.Reason != metav1.StatusReasonMethodNotAllowed || status.Code != 405 ||
					status.Message != "the server does not allow this method on the requested resource" || res.Header.Get("Allow") == "" {
					t.Errorf("%s %s: got %v %s (%v)", method, path, res.Header, body, err)
				}
			case code == 200 && body == "":
				t.Errorf("%s %s has no body", method, path)
			}
		}
	}
	// HEAD needs the rights of GET, and OPTIONS a right that no role grants.
	for _, c := range []struct {
		method, path string
		code         int
	}{
		{"HEAD", "/api/v1/pods", 405}, {"HEAD", "/api/v1/secrets", 403}, {"OPTIONS", "/api/v1/pods", 403}, {"OPTIONS", "/version", 403}, {"HEAD", "/version", 403}, {"GET", "/version", 200},
	} {
		if res, body := s.Exchange(poor, c.method, c.path, "", nil); res.StatusCode != c.code {
			t.Errorf("the scheduler, %s %s: got %s %s, want %d", c.method, c.path, res.Status, body, c.code)
		}
	}
}

// TestCompressedBody: like kube-apiserver, the server takes a body as it is, whatever its
// Content-Encoding.
func TestCompressedBody(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := io.WriteString(writer, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	const maps = "/api/v1/namespaces/default/configmaps"
	for _, c := range []struct{ method, path, contentType, message string }{
		{"POST", maps, "application/json",
			"the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: invalid character '\\x1f' looking for beginning of value ("},
	} {
		res, body := s.Exchange(s.Admin(), c.method, c.path, packed.String(), map[string]string{"Content-Type": c.contentType, "Content-Encoding": "gzip"})
		var status metav1.Status
		err := json.Unmarshal([]byte(body), &status)
		if err != nil || res.StatusCode != 400 || status.Reason != metav1.StatusReasonBadRequest || !strings.HasPrefix(status.Message, c.message) {
			t.Errorf("%s: got  %s %q (%v)\nwant %q", c.method, res.Status, status.Message, err, c.message)
		}
	}
	// The same bytes under a false Content-Encoding are JSON.
	if res, body := s.Exchange(s.Admin(), "POST", maps, `{"metadata":{"name":"c"}}`, map[string]string{"Content-Type": "application/json", "Content-Encoding": "gzip"}); res.StatusCode != 201 {
		t.Errorf("got %s %s", res.Status, body)
	}
}
