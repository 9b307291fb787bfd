package nodeproxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/nodeproxy"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/server/drain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

// agent is the round tripper to a node agent.
type agent struct {
	answer  func(r *http.Request) (*http.Response, error)
	node    string
	request *http.Request
}

func (a *agent) RoundTrip(r *http.Request) (*http.Response, error) {
	a.request = r
	return a.answer(r)
}

func says(code int, header http.Header, body string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		if header == nil {
			header = http.Header{}
		}
		return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r, ContentLength: -1}, nil
	}
}

func fails(err error) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

func pod(node string, containers ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"}, Spec: corev1.PodSpec{NodeName: node}}
	for _, name := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name})
	}
	return p
}

// serve serves what is asked for a pod, whose subresource is the first part of the path.
func serve(t *testing.T, a *agent, of *corev1.Pod) (url string, gate *drain.Gate) {
	t.Helper()
	encoder, gate := response.New(scheme.New(), slog.New(slog.DiscardHandler)), drain.New()
	pods := nodeproxy.Pods{
		Gate: gate, Encoder: encoder,
		Pod: func(_ context.Context, namespace, name string) (*corev1.Pod, error) {
			if namespace != "default" || name != "web" {
				return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
			}
			return of, nil
		},
		To: func(node string) http.RoundTripper {
			a.node = node
			return a
		},
		Admit: func(_ context.Context, _, namespace, name, subresource string, options scheme.Object) error {
			exec, err := json.Marshal(options)
			if err != nil || namespace != "default" || subresource == "exec" && strings.Contains(string(exec), `"command":["refused"]`) {
				return apierrors.NewForbidden(corev1.Resource("pods"), name, fmt.Errorf("not %s (%w)", exec, err))
			}
			return nil
		},
		MayCreate: func(_ context.Context, namespace, name, subresource string) error {
			if subresource == "attach" {
				return apierrors.NewForbidden(corev1.Resource("pods"), name, errors.New("may only get "+namespace))
			}
			return nil
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(r.URL.Path, "/")
		part := map[string]func(http.ResponseWriter, *http.Request, string, string) error{
			"log": pods.Logs, "exec": pods.Exec, "attach": pods.Attach, "portforward": pods.PortForward,
		}[parts[1]]
		if err := part(w, r, "default", parts[2]); err != nil {
			encoder.Error(w, r, err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, gate
}

func request(t *testing.T, method, url string) (code int, body string, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Authorization": {"Bearer secret"}, "Cookie": {"a=b"}, "Impersonate-User": {"root"}, "X-Remote-User": {"root"},
		"X-Stream-Protocol-Version": {"v4.channel.k8s.io"}, "User-Agent": {"test"},
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(data), answer.Header
}

func TestPods(t *testing.T) {
	hello := says(200, http.Header{"Content-Type": {"text/plain"}, "Set-Cookie": {"a=b"}, "X-Stream-Protocol-Version": {"v4"}}, "hello")
	many := pod("n1", "a", "b")
	many.Spec.InitContainers = []corev1.Container{{Name: "i"}}
	many.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e"}}}
	for _, test := range []struct {
		name, method, path string
		pod                *corev1.Pod
		answer             func(*http.Request) (*http.Response, error)
		code               int
		body, asked        string // a part of the body, and what the node is asked
	}{
		{"a log", "GET", "/log/web?tailLines=2&follow=true", pod("n1", "c"), hello, 200, "hello", "/containerLogs/default/web/c?follow=true&tailLines=2&uid=u1"},
		{"the log of a container", "GET", "/log/web?container=i", many, hello, 200, "hello", "/containerLogs/default/web/i?uid=u1"},
		{"the log of a pod without a node", "GET", "/log/web", pod("", "c"), hello, 200, "", ""},
		{"options that are not valid", "GET", "/log/web?tailLines=-1", pod("n1", "c"), hello, 422, "tailLines", ""},
		{"which container", "GET", "/log/web", many, hello, 400,
			"a container name must be specified for pod web, choose one of: [i a b e]", ""},
		{"no such container", "POST", "/exec/web?container=z", many, hello, 400, "container z is not valid for pod web", ""},
		{"no such pod", "POST", "/exec/other", many, hello, 404, `pods \"other\" not found`, ""},
		{"a command", "POST", "/exec/web?command=sh&command=-c&stdin=true&stdout=1&stderr=false&container=e&uid=u2", many, hello, 200, "hello",
			"/exec/default/web/e?command=sh&command=-c&input=1&output=1&uid=u1"},
		{"a command with GET", "GET", "/exec/web?command=sh", pod("n1", "c"), hello, 200, "hello", "/exec/default/web/c?command=sh&uid=u1"},
		{"a command that admission refuses", "POST", "/exec/web?command=refused", pod("n1", "c"), hello, 403, "PodExecOptions", ""},
		{"attaching", "POST", "/attach/web?stderr=true&tty=true", pod("n1", "c"), hello, 200, "hello", "/attach/default/web/c?error=1&tty=1&uid=u1"},
		{"attaching with GET without the right to", "GET", "/attach/web", pod("n1", "c"), hello, 403, "may only get default", ""},
		{"a pod without a node", "POST", "/exec/web", pod("", "c"), hello, 400, "pod web does not have a host assigned", ""},
		{"ports", "POST", "/portforward/web?ports=80&ports=443", many, hello, 200, "hello", "/portForward/default/web?port=80%2C443&uid=u1"},
		{"no ports", "POST", "/portforward/web", many, hello, 200, "hello", "/portForward/default/web?uid=u1"},
		{"bad ports", "POST", "/portforward/web?ports=http", many, hello, 400, "is not a number", ""},
		{"the node refuses", "POST", "/exec/web", pod("n1", "c"), says(400, nil, "container not found"), 400, "container not found", "/exec/default/web/c?uid=u1"},
		{"no agent", "POST", "/exec/web", pod("n1", "c"), fails(fmt.Errorf("calling: %w", bushttp.ErrNoServer)), 503, `node \"n1\" does not answer`, "*"},
		{"no bus", "POST", "/exec/web", pod("n1", "c"), fails(bus.ErrDisconnected), 502, `node \"n1\" cannot be reached`, "*"},
		{"a redirect", "POST", "/exec/web", pod("n1", "c"), says(302, http.Header{"Location": {"http://elsewhere"}}, ""), 502, "redirect", "*"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := &agent{answer: test.answer}
			url, _ := serve(t, a, test.pod)
			code, body, header := request(t, test.method, url+test.path)
			if code != test.code || !strings.Contains(body, test.body) || header.Get("Set-Cookie") != "" {
				t.Errorf("got %d %q %v, want %d %q", code, body, header, test.code, test.body)
			}
			switch {
			case test.asked == "" && a.request != nil:
				t.Errorf("the node was asked for %s", a.request.URL)
			case test.asked == "" || test.asked == "*":
			case a.request == nil || a.request.URL.RequestURI() != test.asked || a.node != "n1" || a.request.Method != test.method:
				t.Errorf("node %s was asked for %v, want %s %s", a.node, a.request, test.method, test.asked)
			default:
				for name := range a.request.Header {
					if !slices.Contains([]string{"User-Agent", "X-Stream-Protocol-Version"}, name) {
						t.Errorf("the node receives the header %s", name)
					}
				}
			}
		})
	}
}

// TestCutLog checks that a log that ends with an error, or with the server, does not look complete.
func TestCutLog(t *testing.T) {
	for _, draining := range []bool{false, true} {
		t.Run(fmt.Sprintf("draining %t", draining), func(t *testing.T) {
			reader, writer := io.Pipe()
			url, gate := serve(t, &agent{answer: func(r *http.Request) (*http.Response, error) {
				context.AfterFunc(r.Context(), func() { _ = writer.CloseWithError(context.Canceled) })
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: reader, Request: r, ContentLength: -1}, nil
			}}, pod("n1", "c"))
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/log/web?follow=true", nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = answer.Body.Close() }()
			line := make([]byte, 5)
			go func() { _, _ = io.WriteString(writer, "line\n") }()
			if _, err := io.ReadFull(answer.Body, line); err != nil || string(line) != "line\n" {
				t.Errorf("read %q, %v", line, err)
			}
			if draining {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				gate.EndWatches(ctx, 0)
			} else {
				_ = writer.CloseWithError(errors.New("the node is gone"))
			}
			if rest, err := io.ReadAll(answer.Body); err == nil {
				t.Errorf("the log looks complete after %q", rest)
			}
		})
	}
}
