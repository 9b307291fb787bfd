package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// prepared is a Runtime that records what it is asked for.
type prepared struct {
	location string
	err      error
	id       string
	command  []string
	streams  runtime.Streams
	ports    []int32
}

func (p *prepared) answer(id string) (*url.URL, error) {
	p.id = id
	if p.err != nil {
		return nil, p.err
	}
	return url.Parse(p.location)
}

func (p *prepared) Exec(_ context.Context, id string, command []string, streams runtime.Streams) (*url.URL, error) {
	p.command, p.streams = command, streams
	return p.answer(id)
}

func (p *prepared) Attach(_ context.Context, id string, streams runtime.Streams) (*url.URL, error) {
	p.streams = streams
	return p.answer(id)
}

func (p *prepared) PortForward(_ context.Context, id string, ports []int32) (*url.URL, error) {
	p.ports = ports
	return p.answer(id)
}

func (p *prepared) ExecSync(_ context.Context, id string, command []string, _ time.Duration) (stdout, stderr []byte, code int32, err error) {
	p.id, p.command = id, command
	if command[0] == "fail" {
		return []byte("out"), []byte("bad"), 3, p.err
	}
	return []byte("out "), []byte("and err"), 0, p.err
}

// node returns a Server of a node with the pod web, which has the containers main, which runs, term,
// which runs in a terminal, dead, which has ended, and slow, whose image is being pulled; and with the
// pod cold, which has no sandbox.
func node(t *testing.T, r Runtime) *Server {
	t.Helper()
	pods := map[string]*corev1.Pod{
		"web": {
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"},
			Spec: corev1.PodSpec{
				Containers:          []corev1.Container{{Name: "main"}, {Name: "dead"}, {Name: "slow"}, {Name: "late"}},
				EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "term", TTY: true}}},
			},
		},
		"cold": {ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cold", UID: "u2"}},
	}
	states := map[string]*podstate.Pod{"u1": {
		UID: "u1", Name: "web", Namespace: "default", Sandboxes: []runtime.Sandbox{{ID: "box", Ready: true}},
		Containers: []runtime.Container{
			{ID: "id-main", Name: "main", PodUID: "u1", State: runtime.Running, LogPath: "/no/such/log"},
			{ID: "id-term", Name: "term", PodUID: "u1", State: runtime.Running},
			{ID: "id-dead", Name: "dead", PodUID: "u1", State: runtime.Exited},
		},
	}, "u2": {UID: "u2"}}
	return New(Config{
		Runtime: r, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Pod: func(namespace, name string) *corev1.Pod {
			if namespace != "default" {
				return nil
			}
			return pods[name]
		},
		State:    func(uid string) *podstate.Pod { return states[uid] },
		Pods:     func() []*corev1.Pod { return []*corev1.Pod{pods["web"], pods["cold"]} },
		States:   func() map[string]*podstate.Pod { return states },
		SyncLoop: func() error { return nil },
		Metrics: map[string]http.Handler{"/metrics/probes": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "prober_probe_total 1\n")
		})},
		Configuration: map[string]any{"maxPods": 110},
		Logs: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "logs of "+r.URL.Path)
		}),
		Waiting: func(_, container string) (string, bool) {
			return "ErrImagePull", container == "slow"
		},
	})
}

// ask sends a request, to upgrade its connection to SPDY or a WebSocket if protocol says so.
func ask(t *testing.T, s http.Handler, method, target, protocol string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	if protocol != "" {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", protocol)
	}
	recorder := httptest.NewRecorder()
	s.ServeHTTP(recorder, r)
	return recorder
}

const spdy31 = "SPDY/3.1"

// TestRefusals checks the status and the text of every refusal.
func TestRefusals(t *testing.T) {
	t.Parallel()
	absent := status.Error(codes.NotFound, "no such container")
	for _, test := range []struct {
		name, method, target, protocol string
		runtime                        prepared
		code                           int
		text                           string
	}{
		{"unknown path", "GET", "/metrics", "", prepared{}, 404, "404 page not found\n"},
		{"other method", "DELETE", "/exec/default/web/main", spdy31, prepared{}, 405, "Method Not Allowed\n"},
		{"log of a missing pod", "GET", "/containerLogs/default/gone/main", "", prepared{}, 404, `pods \"gone\" not found`},
		{"log in another namespace", "GET", "/containerLogs/other/web/main", "", prepared{}, 404, `pods \"web\" not found`},
		{"log of another pod of that name", "GET", "/containerLogs/default/web/main?uid=u9", "", prepared{}, 404, `"reason":"NotFound"`},
		{"log of a missing file", "GET", "/containerLogs/default/web/main?uid=u1", "", prepared{}, 400, "unable to retrieve container logs for id-main: the log file is gone"},
		{"log of an image not pulled", "GET", "/containerLogs/default/web/slow", "", prepared{}, 400, `container \"slow\" in pod \"web\" is waiting to start: trying and failing to pull image`},
		{"log of a container not created", "GET", "/containerLogs/default/web/late", "", prepared{}, 400, `container \"late\" in pod \"web\" is waiting to start: ContainerCreating`},
		{"log of nothing before", "GET", "/containerLogs/default/web/main?previous=true", "", prepared{}, 400, `previous terminated container \"main\" in pod \"web\" not found`},
		{"log options", "GET", "/containerLogs/default/web/main?follow=maybe", "", prepared{}, 400, "the request for a log is not valid"},
		{"two times", "GET", "/containerLogs/default/web/main?sinceSeconds=1&sinceTime=2026-11-27T01:02:03Z", "", prepared{}, 400, "at most one of"},
		{"unknown stream", "GET", "/containerLogs/default/web/main?stream=Stdin", "", prepared{}, 400, `the log stream \"Stdin\" is not known`},
		{"no upgrade", "POST", "/exec/default/web/main?output=1", "", prepared{}, 400, "Upgrade request required"},
		{"no stream", "POST", "/exec/default/web/main", spdy31, prepared{}, 400, "you must specify at least 1 of stdin, stdout, stderr"},
		{"exec in a missing pod", "POST", "/exec/default/gone/main?output=1", spdy31, prepared{}, 404, "pod does not exist"},
		{"exec in another pod of that name", "POST", "/exec/default/web/main?output=1&uid=u9", spdy31, prepared{}, 404, "pod does not exist"},
		{"exec in a missing container", "POST", "/exec/default/web/other?output=1", spdy31, prepared{}, 500, `container not found ("other")`},
		{"exec in an ended container", "POST", "/exec/default/web/dead?output=1", spdy31, prepared{}, 500, `container not found ("dead")`},
		{"exec that the runtime refuses", "POST", "/exec/default/web/main?output=1", spdy31, prepared{err: absent}, 404, "no such container"},
		{"exec with too many prepared", "POST", "/exec/default/web/main?output=1", spdy31, prepared{err: status.Error(codes.ResourceExhausted, "too many")}, 429, "too many"},
		{"exec with another error", "POST", "/exec/default/web/main?output=1", spdy31, prepared{err: errors.New("broken")}, 500, "broken"},
		{"exec elsewhere", "POST", "/exec/default/web/main?output=1", spdy31, prepared{location: "http://192.0.2.7:1234/exec/secret"}, 500,
			`the container runtime serves sessions at "192.0.2.7:1234", which is not a loopback address`},
		{"exec nowhere", "POST", "/exec/default/web/main?output=1", spdy31, prepared{location: "http:///exec/secret"}, 500, `serves sessions at "", which is not`},
		{"exec by other means", "POST", "/exec/default/web/main?output=1", spdy31, prepared{location: "unix:///run/secret"}, 500, `over "unix", not over HTTP`},
		{"exec at a closed port", "POST", "/exec/default/web/main?output=1", spdy31, prepared{location: "http://127.0.0.1:1/exec/secret"}, 500, "error dialing backend: dial tcp 127.0.0.1:1"},
		{"attach to a missing container", "POST", "/attach/default/web/other?output=1", spdy31, prepared{}, 500, "container other not found in pod web_default"},
		{"attach to a missing pod", "POST", "/attach/default/gone/main?output=1", spdy31, prepared{}, 404, "pod does not exist"},
		{"attach elsewhere", "POST", "/attach/default/web/main?output=1", spdy31, prepared{location: "http://example.com/"}, 500, `"example.com", which is not a loopback address`},
		{"ports of a missing pod", "POST", "/portForward/default/gone", spdy31, prepared{}, 404, "pod does not exist"},
		{"ports of a pod without a sandbox", "POST", "/portForward/default/cold", spdy31, prepared{}, 500, `pod not found ("cold_default")`},
		{"ports that the runtime refuses", "POST", "/portForward/default/web", spdy31, prepared{err: absent}, 404, "no such container"},
		{"ports elsewhere", "POST", "/portForward/default/web", spdy31, prepared{location: "http://192.0.2.7/"}, 500, "not a loopback address"},
		{"no port", "GET", "/portForward/default/web", "websocket", prepared{}, 400, `query parameter "port" is required`},
		{"no number of a port", "GET", "/portForward/default/web?ports=http", "websocket", prepared{}, 400, `unable to parse "http" as a port`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, node(t, &test.runtime), test.method, test.target, test.protocol)
			if got.Code != test.code || !strings.Contains(got.Body.String(), test.text) {
				t.Errorf("got %d %s, want %d %s", got.Code, got.Body, test.code, test.text)
			}
			if strings.Contains(got.Body.String(), "secret") {
				t.Errorf("the answer has the URL of a session: %s", got.Body)
			}
			if wanted := strings.HasPrefix(test.target, "/containerLogs"); wanted != (got.Header().Get("Content-Type") == "application/json") && test.name != "no upgrade" {
				t.Errorf("the content type is %s", got.Header().Get("Content-Type"))
			}
		})
	}
}

// TestPreparedSessions checks what the runtime is asked for. Nothing listens where it sends the agent.
func TestPreparedSessions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, target, protocol string
		want                   prepared
	}{
		{"command", "/exec/default/web/main?command=sh&command=-c&command=a b&input=1&output=1&error=1", spdy31,
			prepared{id: "id-main", command: []string{"sh", "-c", "a b"}, streams: runtime.Streams{Stdin: true, Stdout: true, Stderr: true}}},
		{"command in a terminal", "/exec/default/web/main?command=sh&output=1&error=1&tty=1", spdy31,
			prepared{id: "id-main", command: []string{"sh"}, streams: runtime.Streams{Stdout: true, TTY: true}}},
		{"attach without a terminal, whatever the client has", "/attach/default/web/main?input=1&output=1&tty=1", spdy31,
			prepared{id: "id-main", streams: runtime.Streams{Stdin: true, Stdout: true}}},
		{"attach to a terminal", "/attach/default/web/term?output=1", spdy31, prepared{id: "id-term", streams: runtime.Streams{Stdout: true, TTY: true}}},
		{"ports that streams name", "/portForward/default/web?ports=80", spdy31, prepared{id: "box"}},
		{"ports of the API's query", "/portForward/default/web?ports=80,81&ports=82", "websocket", prepared{id: "box", ports: []int32{80, 81, 82}}},
		{"ports of the kubelet's query", "/portForward/default/web?port=80&ports=9", "websocket", prepared{id: "box", ports: []int32{80}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := &prepared{location: "http://:1/"}
			target := strings.ReplaceAll(test.target, " ", "%20")
			if answer := ask(t, node(t, got), http.MethodPost, target, test.protocol); !strings.Contains(answer.Body.String(), "dial tcp 127.0.0.1:1") {
				t.Errorf("the agent answered %d %s", answer.Code, answer.Body)
			}
			if got.id != test.want.id || !slices.Equal(got.command, test.want.command) || got.streams != test.want.streams || !slices.Equal(got.ports, test.want.ports) {
				t.Errorf("the runtime was asked for %+v, want %+v", *got, test.want)
			}
		})
	}
}

// TestTooManySessions checks that a session beyond the bound is refused, and logs are not.
func TestTooManySessions(t *testing.T) {
	t.Parallel()
	s := node(t, &prepared{location: "http://127.0.0.1:1/"})
	for range MaxSessions {
		s.sessions <- struct{}{}
	}
	for _, target := range []string{"/exec/default/web/main?output=1", "/attach/default/web/main?output=1", "/portForward/default/web"} {
		got := ask(t, s, http.MethodPost, target, spdy31)
		if got.Code != http.StatusTooManyRequests || !strings.Contains(got.Body.String(), `"reason":"TooManyRequests"`) || got.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", target, got.Code, got.Body)
		}
	}
	if got := ask(t, s, http.MethodGet, "/healthz", ""); got.Code != http.StatusOK || got.Body.String() != "ok" {
		t.Errorf("the health check: %d %s", got.Code, got.Body)
	}
	<-s.sessions
	for range 3 {
		if got := ask(t, s, http.MethodPost, "/exec/default/web/main?output=1", spdy31); got.Code == http.StatusTooManyRequests {
			t.Errorf("with a free place: %d %s", got.Code, got.Body)
		}
	}
}

// TestLoopback checks which servers of a runtime the agent connects to.
func TestLoopback(t *testing.T) {
	t.Parallel()
	for location, want := range map[string]string{
		"http://127.0.0.1:10/exec/t":        "http://127.0.0.1:10/exec/t",
		"https://127.1.2.3:10/":             "https://127.1.2.3:10/",
		"http://[::1]:10/":                  "http://[::1]:10/",
		"http://[::ffff:127.0.0.1]:10/":     "http://[::ffff:127.0.0.1]:10/",
		"http://localhost:10/":              "http://localhost:10/",
		"http://:10/exec/t":                 "http://127.0.0.1:10/exec/t",
		"http://[::ffff:192.0.2.1]:10/":     "",
		"http://0.0.0.0:10/":                "",
		"http://localhost.example.com:10/":  "",
		"http://127.0.0.1.example.com/":     "",
		"http://127.0.0.1@192.0.2.1/exec/t": "",
		"/exec/t":                           "",
		"ftp://127.0.0.1/":                  "",
	} {
		parsed, err := url.Parse(location)
		if err != nil {
			t.Fatal(err)
		}
		switch got, err := local(parsed); {
		case want == "" && err == nil:
			t.Errorf("%s was taken as %s", location, got)
		case want != "" && (err != nil || got.String() != want):
			t.Errorf("%s became %v, %v", location, got, err)
		}
	}
}

// TestLibrariesAreQuiet checks that what libraries log is for debugging, without headers of requests.
func TestLibrariesAreQuiet(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	s := New(Config{Logger: slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	s.quiet.WithValues("session", 1).Error(errors.New("the client hung up"), "proxying failed")
	s.quiet.V(6).Info("dialing", "headers", "secret")
	if got := text.String(); !strings.Contains(got, "level=DEBUG") || !strings.Contains(got, "hung up") || strings.Contains(got, "ERROR") || strings.Contains(got, "secret") {
		t.Errorf("logged %s", got)
	}
}
