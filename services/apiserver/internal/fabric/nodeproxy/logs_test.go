package nodeproxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/nodeproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node answers like a node agent.
type node struct {
	subject string
	request nodeapi.LogRequest
	answer  string
	err     error
	closed  int
}

func (n *node) Open(_ context.Context, subject string, request []byte) (io.ReadCloser, error) {
	n.subject = subject
	if n.err != nil {
		return nil, n.err
	}
	if err := json.Unmarshal(request, &n.request); err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{strings.NewReader(n.answer), n}, nil
}

func (n *node) Close() error {
	n.closed++
	return nil
}

func pod(node string, containers ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"}, Spec: corev1.PodSpec{NodeName: node}}
	for _, name := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name})
	}
	return p
}

func TestOpenLog(t *testing.T) {
	status, err := json.Marshal(nodeapi.LogHeader{Status: &metav1.Status{Code: 400, Message: "container is waiting to start"}})
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name string
		pod  *corev1.Pod
		node node
		opts corev1.PodLogOptions
		log  string
		code int32
		says string
	}{
		{name: "a log", pod: pod("n1", "c"), node: node{answer: "{}\nline 1\nline 2\n"}, log: "line 1\nline 2\n"},
		{name: "an empty log", pod: pod("n1", "c"), node: node{answer: "{}\n"}},
		{name: "no node yet", pod: pod("", "c"), node: node{err: errors.New("must not be asked")}},
		{name: "a chosen container", pod: pod("n1", "a", "b"), node: node{answer: "{}\nb"}, opts: corev1.PodLogOptions{Container: "b"}, log: "b"},
		{name: "which container", pod: pod("n1", "a", "b"), code: 400, says: "a container name must be specified for pod web, choose one of: [a b]"},
		{name: "no such container", pod: pod("n1", "a"), opts: corev1.PodLogOptions{Container: "z"}, code: 400, says: "container z is not valid for pod web"},
		{name: "the node refuses", pod: pod("n1", "c"), node: node{answer: string(status) + "\n"}, code: 400, says: "container is waiting to start"},
		{name: "no responder", pod: pod("n1", "c"), node: node{err: fmt.Errorf("asking: %w", bus.ErrNoResponders)}, code: 503, says: `node "n1" does not answer`},
		{name: "a broken answer", pod: pod("n1", "c"), node: node{answer: "rubbish\n"}, code: 502, says: `node "n1"`},
		{name: "an endless header", pod: pod("n1", "c"), node: node{answer: strings.Repeat("x", 1<<20)}, code: 502, says: `node "n1"`},
		{name: "a cut answer", pod: pod("n1", "c"), node: node{answer: "{"}, code: 502, says: "EOF"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			stream, err := nodeproxy.OpenLog(t.Context(), &c.node, c.pod, &c.opts)
			if c.code != 0 {
				var status apierrors.APIStatus
				if !errors.As(err, &status) || status.Status().Code != c.code || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("got %v, want %d %q", err, c.code, c.says)
				}
				if c.node.request.Pod != "" && c.node.closed != 1 {
					t.Error("the stream was left open")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(stream)
			if err != nil || string(data) != c.log {
				t.Errorf("read %q, %v; want %q", data, err, c.log)
			}
			if err := stream.Close(); err != nil {
				t.Error(err)
			}
			if c.pod.Spec.NodeName != "" && (c.node.subject != subject.Node("n1", "logs") || c.node.request.UID != "u1") {
				t.Errorf("asked %s for %+v", c.node.subject, c.node.request)
			}
		})
	}
}

func TestParseLogOptions(t *testing.T) {
	opts, err := nodeproxy.ParseLogOptions("web", url.Values{
		"container": {"c"}, "follow": {"true"}, "previous": {"1"}, "timestamps": {"true"}, "tailLines": {"0"},
		"limitBytes": {"10"}, "sinceTime": {"2026-01-02T03:04:05Z"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if opts.Container != "c" || !opts.Follow || !opts.Previous || !opts.Timestamps || *opts.TailLines != 0 || *opts.LimitBytes != 10 || opts.SinceTime.Year() != 2026 {
		t.Errorf("read %+v", opts)
	}
	for name, query := range map[string]string{
		"tailLines": "tailLines=-1", "sinceSeconds": "sinceSeconds=0", "limitBytes": "limitBytes=x", "follow": "follow=maybe",
		"sinceTime": "sinceTime=yesterday", "at most one of": "sinceTime=2026-01-02T03:04:05Z&sinceSeconds=1", "stream": "stream=Stderr",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		var status apierrors.APIStatus
		if _, err := nodeproxy.ParseLogOptions("web", values); !errors.As(err, &status) || status.Status().Code != http.StatusUnprocessableEntity || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want Invalid that names %s", query, err, name)
		}
	}
}

func FuzzParseLogOptions(f *testing.F) {
	f.Add("follow=true&tailLines=10")
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		opts, err := nodeproxy.ParseLogOptions("web", values)
		if (opts == nil) == (err == nil) {
			t.Fatalf("%q: both or neither of %v and %v", query, opts, err)
		}
	})
}
