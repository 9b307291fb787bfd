package serve_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp/internal/bushttptest"
	"github.com/garboard/garboard/libs/bus/bushttp/serve"
	"github.com/garboard/garboard/libs/bus/bustest"
)

// raw is a request of a caller that ignores the rules: an arbitrary credit, and a first part that
// may or may not be the last.
func raw(head string, credit uint64, last bool, body string) []byte {
	flags := byte(1)
	if last {
		flags |= 2
	}
	data := append([]byte{1, flags}, make([]byte, 8)...)
	data = binary.BigEndian.AppendUint64(data, credit)
	data = binary.BigEndian.AppendUint32(data, uint32(len(head)))
	return append(append(data, head...), body...)
}

// said returns the messages that arrive at a new inbox of a connection.
func said(t *testing.T, conn *bus.Conn) (inbox string, messages <-chan bus.Message) {
	t.Helper()
	all := make(chan bus.Message, 20_000)
	inbox = conn.NewInbox()
	if _, err := conn.Subscribe(t.Context(), inbox, func(m bus.Message) { all <- m }); err != nil {
		t.Fatal(err)
	}
	return inbox, all
}

// TestOneCallerCannotTakeAllSlots checks that a caller that keeps its requests in flight leaves
// slots to others. A request that gets no slot uses no resources, whatever credit it grants.
func TestOneCallerCannotTakeAllSlots(t *testing.T) {
	nats := bustest.NewServer(t)
	var serving, most atomic.Int64
	registry := prometheus.NewRegistry()
	handler := func(_ http.ResponseWriter, r *http.Request) {
		now := serving.Add(1)
		defer serving.Add(-1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
		}
		if r.URL.Path == "/keep" {
			<-r.Context().Done()
		}
	}
	server := bushttptest.ServeConfig(t, serve.Config{
		Conn: nats.Connect(), Handler: http.HandlerFunc(handler), Patience: 10 * bushttptest.Patience, Drain: time.Millisecond, Registerer: registry,
	})
	hostile := nats.Connect()
	inbox, messages := said(t, hostile)
	const requests = 8192 + 100
	for range requests {
		if err := hostile.PublishRequest(t.Context(), hostile.Client().API(), inbox, raw("GET /keep HTTP/1.1\r\nHost: h\r\n\r\n", 0, true, "")); err != nil {
			t.Fatal(err)
		}
	}
	refused := 0
	for end := time.After(3 * bushttptest.Patience); refused < requests-8192; {
		select {
		case m := <-messages:
			if m.Data[0] == 4 { // given up
				refused++
			}
		case <-end:
			t.Fatalf("%d requests of one caller are refused, %d are in flight", refused, serving.Load())
		}
	}
	client := &http.Client{Transport: bushttptest.Open(t, nats.Connect(), bushttptest.Patience)}
	if response, _ := bushttptest.Do(t, client, bushttptest.Request(t, "GET", "http://api/", nil)); response.StatusCode != http.StatusOK {
		t.Errorf("another caller got %s", response.Status)
	}
	if most.Load() > 8192+1 {
		t.Errorf("%d requests were in flight", most.Load())
	}
	server.End(t)
	// The first request is how the test learns that the server is there.
	for name, want := range map[string]float64{
		"garboard_bushttp_requests": 0, "garboard_bushttp_requests_total answered": 2, "garboard_bushttp_requests_total refused": requests - 8192,
		"garboard_bushttp_requests_total cut": 8192, "garboard_bushttp_body_bytes_total out": 0,
	} {
		if got := value(t, registry, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// value returns the value of a metric; want may have the value of its label, besides that of the server, after the name.
func value(t *testing.T, registry *prometheus.Registry, want string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				if label.GetName() != "server" {
					name += " " + label.GetValue()
				} else if label.GetValue() != "api" {
					t.Errorf("%s is of server %s", name, label.GetValue())
				}
			}
			if name == want {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("metric %s is missing", want)
	return 0
}

// TestRefusalWithoutCredit checks that the server does not wait for credit of a refused caller.
func TestRefusalWithoutCredit(t *testing.T) {
	nats := bustest.NewServer(t)
	bushttptest.Serve(t, nats.Connect(), bushttptest.Patience, func(http.ResponseWriter, *http.Request) {})
	hostile := nats.Connect()
	inbox, messages := said(t, hostile)
	for _, head := range []string{"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", "nonsense"} {
		if err := hostile.PublishRequest(t.Context(), hostile.Client().API(), inbox, raw(head, 0, true, "")); err != nil {
			t.Fatal(err)
		}
		if m := bushttptest.Receive(t, messages, "the refusal"); m.Data[0] != 4 {
			t.Errorf("%q: got %q", head, m.Data)
		}
	}
}

// TestUnreadBodies checks that a caller may not send more of a body than the handler
// reads, and that the body of a request whose method allows none is discarded.
func TestUnreadBodies(t *testing.T) {
	nats := bustest.NewServer(t)
	read := make(chan struct{})
	got := make(chan string, 1)
	handler := func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-read:
		case <-r.Context().Done():
			return
		}
		data, err := io.ReadAll(r.Body)
		got <- fmt.Sprintf("%s%d %v", r.Method, len(data), err)
	}
	bushttptest.ServeConfig(t, serve.Config{Conn: nats.Connect(), Handler: http.HandlerFunc(handler), Patience: bushttptest.Patience, Drain: time.Millisecond})
	hostile := nats.Connect()
	inbox, messages := said(t, hostile)
	ask := func(data []byte) {
		t.Helper()
		if err := hostile.PublishRequest(t.Context(), hostile.Client().API(), inbox, data); err != nil {
			t.Fatal(err)
		}
	}
	credit := func() uint64 {
		t.Helper()
		m := bushttptest.Receive(t, messages, "credit")
		if m.Data[0] != 3 {
			t.Fatalf("got %q", m.Data)
		}
		return binary.BigEndian.Uint64(m.Data[2:])
	}
	ask(raw("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2000000\r\n\r\n", 1<<20, false, ""))
	if n := credit(); n != 0 {
		t.Errorf("%d bytes may be sent before the handler reads", n)
	}
	close(read)
	if n := credit(); n < 256<<10 {
		t.Errorf("%d bytes may be sent when the handler reads", n)
	}
	for _, last := range []bool{true, false} {
		ask(raw("GET / HTTP/1.1\r\nHost: h\r\n\r\n", 1<<20, last, strings.Repeat("x", 1000)))
		if said := bushttptest.Receive(t, got, "the handler"); said != "GET0 <nil>" {
			t.Errorf("the handler read %s", said)
		}
	}
}

// TestReadDeadline checks that a handler need not wait forever for a missing body.
func TestReadDeadline(t *testing.T) {
	nats := bustest.NewServer(t)
	failed := make(chan error, 2)
	bushttptest.Serve(t, nats.Connect(), bushttptest.Patience, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := errors.Join(control.SetReadDeadline(time.Now().Add(-time.Second)), control.SetReadDeadline(time.Time{})); err != nil {
			t.Error(err)
		}
		part := make([]byte, 4)
		_, err := io.ReadFull(r.Body, part) // Received data is still read.
		if err == nil {
			err = control.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		}
		if err != nil {
			t.Error(err)
		}
		_, err = r.Body.Read(part)
		failed <- err
	})
	hostile := nats.Connect()
	inbox, _ := said(t, hostile)
	if err := hostile.PublishRequest(t.Context(), hostile.Client().API(), inbox, raw("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2000000\r\n\r\n", 1<<20, false, "some")); err != nil {
		t.Fatal(err)
	}
	if err := bushttptest.Receive(t, failed, "the deadline"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// TestTooLargeAMessage checks that a message larger than a part is refused, regardless of the
// credit.
func TestTooLargeAMessage(t *testing.T) {
	nats := bustest.NewServer(t)
	var paths atomic.Value
	paths.Store("")
	server := bushttptest.Serve(t, nats.Connect(), bushttptest.Patience, func(_ http.ResponseWriter, r *http.Request) {
		paths.CompareAndSwap("", r.URL.Path)
	})
	hostile := nats.Connect()
	inbox, messages := said(t, hostile)
	for path, n := range map[string]int{"/large": 300 << 10, "/small": 10} {
		head := "POST " + path + " HTTP/1.1\r\nHost: h\r\n\r\n"
		if err := hostile.PublishRequest(t.Context(), hostile.Client().API(), inbox, raw(head, 1<<20, true, strings.Repeat("x", n))); err != nil {
			t.Fatal(err)
		}
		if path == "/small" {
			m := bushttptest.Receive(t, messages, "the answer to the small one")
			if m.Data[0] == 3 { // A slow handler: the server introduces itself first.
				m = bushttptest.Receive(t, messages, "the answer to the small one")
			}
			if m.Data[0] != 2 {
				t.Errorf("got %q", m.Data)
			}
		}
	}
	if err := hostile.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.End(t)
	if got := paths.Load(); got != "/small" || len(messages) > 0 {
		t.Errorf("%s was bushttptest.Served, and %d messages arrived", got, len(messages))
	}
}
