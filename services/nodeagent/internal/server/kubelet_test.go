package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestKubelet checks what the server answers about the node.
func TestKubelet(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		method, target string
		runtime        prepared
		code           int
		text           string // the whole body
	}{
		{"GET", "/healthz/ping", prepared{}, 200, "ok"},
		{"GET", "/healthz/log", prepared{}, 200, "ok"},
		{"GET", "/healthz/syncloop", prepared{}, 200, "ok"},
		{"GET", "/healthz/other", prepared{}, 404, "404 page not found\n"},
		{"GET", "/healthz?verbose", prepared{}, 200, "[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n"},
		{"GET", "/healthz?verbose&exclude=log", prepared{}, 200, "[+]ping ok\n[+]log excluded: ok\n[+]syncloop ok\nhealthz check passed\n"},
		{"GET", "/metrics/probes", prepared{}, 200, "prober_probe_total 1\n"},
		{"GET", "/configz", prepared{}, 200, "{\n \"kubeletconfig\": {\n  \"maxPods\": 110\n }\n}"},
		{"GET", "/logs/a/b?query=x", prepared{}, 200, "logs of /logs/a/b"},
		{"POST", "/pods", prepared{}, 405, "Method Not Allowed\n"},
		{"GET", "/run/default/web/main?cmd=ls", prepared{}, 405, "Method Not Allowed\n"},
		{"POST", "/run/default/web/main?cmd=echo%20a%20b", prepared{}, 200, "out and err"},
		{"POST", "/run/default/web/u1/main?cmd=echo", prepared{}, 200, "out and err"},
		{"POST", "/run/default/web/u9/main?cmd=echo", prepared{}, 404, "pod does not exist"},
		{"POST", "/run/default/gone/main?cmd=echo", prepared{}, 404, "pod does not exist"},
		{"POST", "/run/default/web/dead?cmd=echo", prepared{}, 500, `container not found ("dead")`},
		{"POST", "/run/default/web/main?cmd=fail%20now", prepared{}, 500, "command 'fail now' exited with 3: bad"},
		{"POST", "/run/default/web/main?cmd=echo", prepared{err: errors.New("broken")}, 500, "broken"},
	} {
		got := ask(t, node(t, &test.runtime), test.method, test.target, "")
		if got.Code != test.code || got.Body.String() != test.text {
			t.Errorf("%s %s: got %d %q, want %d %q", test.method, test.target, got.Code, got.Body, test.code, test.text)
		}
		if strings.Contains(test.target, "echo%20a") && (test.runtime.id != "id-main" || !slices.Equal(test.runtime.command, []string{"echo", "a", "b"})) {
			t.Errorf("the runtime was asked for %+v", test.runtime)
		}
	}
}

// TestPods checks the lists of wanted and of running pods.
func TestPods(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"/pods":         "default/web main,dead,slow,late;default/cold ;",
		"/runningpods":  "default/web main,term;",
		"/runningpods/": "default/web main,term;",
	} {
		got := ask(t, node(t, &prepared{}), http.MethodGet, target, "")
		list := &corev1.PodList{}
		if err := json.Unmarshal(got.Body.Bytes(), list); err != nil || list.Kind != "PodList" || list.APIVersion != "v1" || got.Header().Get("Content-Type") != "application/json" {
			t.Fatalf("%s: %s, %v", target, got.Body, err)
		}
		found := ""
		for _, pod := range list.Items {
			var names []string
			for _, c := range pod.Spec.Containers {
				names = append(names, c.Name)
			}
			found += pod.Namespace + "/" + pod.Name + " " + strings.Join(names, ",") + ";"
		}
		if found != want {
			t.Errorf("%s: got %q, want %q", target, found, want)
		}
	}
}

// TestUnhealthy checks what the server says while the agent's loop hangs.
func TestUnhealthy(t *testing.T) {
	t.Parallel()
	s := node(t, &prepared{})
	s.cfg.SyncLoop = func() error { return errors.New("it hangs") }
	for target, want := range map[string]string{
		"/healthz":          "[+]ping ok\n[+]log ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n",
		"/healthz/syncloop": "internal server error: it hangs\n",
	} {
		if got := ask(t, s, http.MethodGet, target, ""); got.Code != http.StatusInternalServerError || got.Body.String() != want {
			t.Errorf("%s: got %d %q", target, got.Code, got.Body)
		}
	}
	if got := ask(t, s, http.MethodGet, "/healthz?exclude=syncloop", ""); got.Code != http.StatusOK {
		t.Errorf("without that check: %d %s", got.Code, got.Body)
	}
}

// TestTooManyCommands checks that commands count as sessions.
func TestTooManyCommands(t *testing.T) {
	t.Parallel()
	s := node(t, &prepared{})
	for range MaxSessions {
		s.sessions <- struct{}{}
	}
	if got := ask(t, s, http.MethodPost, "/run/default/web/main?cmd=ls", ""); got.Code != http.StatusTooManyRequests {
		t.Errorf("got %d %s", got.Code, got.Body)
	}
}
