package store_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// toxic is a proxy to an etcd that can stop carrying data without closing its connections.
type toxic struct {
	url    string
	frozen atomic.Bool
}

func newToxic(t *testing.T, to string) *toxic {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &toxic{url: "http://" + listener.Addr().String()}
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	carry := func(from, to net.Conn) {
		defer func() { _ = to.Close() }()
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			if p.frozen.Load() {
				continue // Read on, so that the sender believes that the data has arrived.
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
	all.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := new(net.Dialer).DialContext(t.Context(), "tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			mu.Lock()
			open = append(open, in, out)
			mu.Unlock()
			all.Go(func() { carry(in, out) })
			all.Go(func() { carry(out, in) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for _, conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return p
}

// silent starts a server that accepts connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-ended })
	return "http://" + listener.Addr().String()
}

// refused returns an address on which nothing listens.
func refused(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return "http://" + listener.Addr().String()
}

// TestSeveralEndpoints: of several etcd servers one is dead, one never answers, and a third later
// stalls. Requests continue, except those that the stalled one has swallowed.
func TestSeveralEndpoints(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	to := strings.TrimPrefix(etcd.Endpoints()[0], "http://")
	first, second := newToxic(t, to), newToxic(t, to)
	s := open(t, store.Config{
		Servers: []string{refused(t), silent(t), first.url, second.url}, Logger: slog.New(slog.DiscardHandler),
	})
	kind := scheme.For[*corev1.ConfigMap](table)
	for n := range 50 {
		create(t, s, configMap("a", fmt.Sprint("c", n), "v"))
		if _, err := s.Get(t.Context(), kind, "a", fmt.Sprint("c", n)); err != nil {
			t.Fatal(err)
		}
	}
	for _, frozen := range []*toxic{first, second} {
		frozen.frozen.Store(true)
		deadline := time.Now().Add(3 * time.Minute)
		for good := 0; good < 20; {
			if _, err := s.Get(t.Context(), kind, "a", "c0"); err != nil {
				good = 0
				if time.Now().After(deadline) {
					t.Fatalf("the store still uses a stalled server: %v", err)
				}
				continue
			}
			good++
		}
		create(t, s, configMap("b", strings.TrimPrefix(frozen.url, "http://127.0.0.1:"), "v"))
		frozen.frozen.Store(false)
		// The first is used again, since the next one stalls now.
	}
}
