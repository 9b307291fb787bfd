package agent_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/nodeapi"
)

// askLog asks an agent for the log of a container.
func (w *world) askLog(handler http.Handler, pod, container string, opts *corev1.PodLogOptions) (code int, body string) {
	w.t.Helper()
	target := nodeapi.Target{Namespace: "default", Pod: pod, Container: container}
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, target.URL(nodeapi.ContainerLogs, nodeapi.LogQuery(opts)).String(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder.Code, recorder.Body.String()
}

// log returns the log of a container.
func (w *world) log(handler http.Handler, pod, container string, opts *corev1.PodLogOptions) string {
	w.t.Helper()
	code, body := w.askLog(handler, pod, container, opts)
	if code != http.StatusOK {
		w.t.Fatalf("asking for the log of %s in %s: %d %s", container, pod, code, body)
	}
	return body
}

// TestHandlerIsServed checks that an agent hands out its handler for as long as it runs.
func TestHandlerIsServed(t *testing.T) {
	w := newWorld(t)
	w.start()
	recorder := httptest.NewRecorder()
	(<-w.handler).ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", nil))
	if recorder.Code != http.StatusOK || recorder.Body.String() != "ok" {
		t.Errorf("got %d %q", recorder.Code, recorder.Body)
	}
}
