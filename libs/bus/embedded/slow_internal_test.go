package embedded

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/nats-io/nats.go"
)

// TestSlowReaderDoesNotStallOthers checks that a client that does not read loses messages, and does
// not slow down the sender, which sends to all other clients too.
func TestSlowReaderDoesNotStallOthers(t *testing.T) {
	s, err := New(Config{Port: RandomPort})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	slow, err := new(net.Dialer).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", s.Port()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Close() }()
	sender, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	before := s.nats.NumSubscriptions()
	if _, err := io.WriteString(slow, "CONNECT {\"verbose\":false}\r\nSUB big 1\r\n"); err != nil {
		t.Fatal(err)
	}
	for s.nats.NumSubscriptions() <= before {
		if err := sender.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	part := make([]byte, 256<<10)
	for range 240 { // 60 MB; NATS disconnects a client at 64 MB
		if err := sender.Publish("big", part); err != nil {
			t.Fatal(err)
		}
	}
	if err := sender.Flush(); err != nil {
		t.Fatal(err)
	}
	if n := s.nats.NumStalledClients(); n != 0 {
		t.Errorf("the sender was stalled %d times", n)
	}
}
