package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// dialing returns a server of a node with pods that can be dialed. At port 80 of web something answers a
// line in capitals and then ends, and at port 81 nothing listens.
func dialing(t *testing.T) (url string, dialed *[]string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				heard, _ := bufio.NewReader(conn).ReadString('\n')
				_, _ = io.WriteString(conn, strings.ToUpper(heard))
			}()
		}
	}()
	pods := map[string]*corev1.Pod{"web": {}, "host": {Spec: corev1.PodSpec{HostNetwork: true}}, "cold": {}, "bad": {}}
	for name, pod := range pods {
		pod.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u1"}
	}
	ips := map[string][]string{"web": {"10.1.2.3"}, "bad": {"127.0.0.1"}}
	dialed = &[]string{}
	var last string
	s := New(Config{
		Runtime: &prepared{}, Logger: slog.New(slog.DiscardHandler), NodeIP: "192.0.2.1",
		Pod: func(_, name string) *corev1.Pod {
			last = name
			return pods[name]
		},
		State: func(string) *podstate.Pod {
			return &podstate.Pod{Sandboxes: []runtime.Sandbox{{ID: "box", Ready: true, IPs: ips[last]}}}
		},
		Waiting: func(string, string) (string, bool) { return "", false },
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			*dialed = append(*dialed, address)
			if strings.HasSuffix(address, ":81") {
				return nil, errors.New("nothing listens at " + address)
			}
			return (&net.Dialer{}).DialContext(ctx, network, listener.Addr().String())
		},
	})
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server.URL, dialed
}

func dialRequest(t *testing.T, url string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {nodeapi.DialProtocol}}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func TestDialRefusals(t *testing.T) {
	for _, test := range []struct {
		path string
		code int
		says string
	}{
		{"/dial/default/none?port=80", 404, `pods \"none\" not found`},
		{"/dial/default/web?port=80&uid=u2", 404, `pods \"web\" not found`},
		{"/dial/default/web", 400, "is not a number from 1 to 65535"},
		{"/dial/default/web?port=0", 400, "is not a number from 1 to 65535"},
		{"/dial/default/web?port=65536", 400, "is not a number from 1 to 65535"},
		{"/dial/default/web?port=http", 400, "is not a number from 1 to 65535"},
		{"/dial/default/web?port=81", 503, "nothing listens at 10.1.2.3:81"},
		{"/dial/default/host?port=81", 503, "nothing listens at 192.0.2.1:81"},
		{"/dial/default/cold?port=80", 503, "pod cold has no address yet"},
		{"/dial/default/bad?port=80", 503, "at which it cannot be reached"},
	} {
		url, _ := dialing(t)
		response := dialRequest(t, url+test.path)
		body, err := io.ReadAll(response.Body)
		if response.StatusCode != test.code || !strings.Contains(string(body), test.says) || err != nil {
			t.Errorf("%s: got %d %s (%v), want %d %s", test.path, response.StatusCode, body, err, test.code, test.says)
		}
	}
}

// TestDial checks that bytes, and the end of the pod's direction, are passed on.
func TestDial(t *testing.T) {
	url, dialed := dialing(t)
	response := dialRequest(t, url+"/dial/default/web?port=80&uid=u1")
	conn, ok := response.Body.(io.ReadWriteCloser)
	if response.StatusCode != http.StatusSwitchingProtocols || !ok {
		t.Fatalf("got %s", response.Status)
	}
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); string(got) != "HELLO\n" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if len(*dialed) != 1 || (*dialed)[0] != "10.1.2.3:80" {
		t.Errorf("dialed %q", *dialed)
	}
}
