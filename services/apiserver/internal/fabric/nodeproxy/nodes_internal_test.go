package nodeproxy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/bus/bushttp/serve"
	"github.com/garboard/garboard/libs/bus/bustest"
)

const (
	flood      = "9000"    // The port at which the agent sends much.
	floodBytes = 256 << 20 // what it sends there
)

// agent echoes what is sent to a dialed port, refuses port 81, and floods who dials the port flood.
func agent(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("port") == "81" {
		w.WriteHeader(http.StatusBadGateway)
		_ = json.NewEncoder(w).Encode(metav1.Status{Message: "nothing listens at " + r.URL.Path})
		return
	}
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	if r.URL.Query().Get("port") == flood {
		part := make([]byte, 256<<10)
		for sent := 0; sent < floodBytes && err == nil; sent += len(part) {
			_, err = conn.Write(part)
		}
		return
	}
	_, _ = io.Copy(conn, conn)
}

// startNodes runs the agent of node n1, which connects by of, and Nodes, which end with the test.
func startNodes(t *testing.T, conn func() *bus.Conn, of *bus.Conn) *Nodes {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	serving, ended := make(chan struct{}), make(chan error, 2)
	server := serve.New(serve.Config{
		Conn: of, Node: "n1", Handler: http.HandlerFunc(agent), Drain: time.Millisecond, Serving: func() { close(serving) },
	})
	go func() { ended <- server.Run(ctx) }()
	nodes := NewNodes(conn, slog.New(slog.DiscardHandler))
	go func() { ended <- nodes.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
		if len(nodes.nodes) > 0 {
			t.Errorf("%d transports are left", len(nodes.nodes))
		}
	})
	<-serving
	return nodes
}

// TestDial dials a pod through its node, and checks that the transport to a node lives as long as it is
// used.
func TestDial(t *testing.T) {
	nats := bustest.NewServer(t)
	own := nats.Connect()
	nodes := startNodes(t, func() *bus.Conn { return own }, nats.Connect())

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	dialing, over := context.WithCancel(t.Context())
	conn, err := nodes.Dial(dialing, pod, "80")
	if err != nil {
		t.Fatal(err)
	}
	over() // It bounds the dialing alone.
	nodes.sweep(time.Now().Add(time.Hour), idleTime)
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Error(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(conn); string(got) != "hello" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if _, err := nodes.Dial(t.Context(), pod, "81"); err == nil || !strings.Contains(err.Error(), "nothing listens at /dial/default/web") {
		t.Errorf("a refused port: %v", err)
	}
	if _, err := nodes.Dial(dialing, pod, "80"); !errors.Is(err, context.Canceled) {
		t.Errorf("dialing with a context that has ended: %v", err)
	}
	// What was closed here may still be in flight until the node hears of it.
	for deadline := time.Now().Add(time.Minute); ; {
		if nodes.sweep(time.Now().Add(time.Hour), idleTime); len(nodes.nodes) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("an idle transport is kept")
		}
		<-time.After(10 * time.Millisecond)
	}
	pod.Spec.NodeName = "n2"
	if _, err := nodes.Dial(t.Context(), pod, "80"); !errors.Is(err, bushttp.ErrNoServer) {
		t.Errorf("a node without an agent: %v", err)
	}
	pod.Spec.NodeName = ""
	if _, err := nodes.Dial(t.Context(), pod, "80"); err == nil {
		t.Error("a pod without a node is dialed")
	}
	own = nil
	if _, err := nodes.begin("n3"); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("without a bus: %v", err)
	}
}
