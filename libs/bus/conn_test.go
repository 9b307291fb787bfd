package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/embedded"
	"github.com/garboard/garboard/libs/bus/subject"
)

const patience = time.Minute

// receive returns the next value of ch, or fails the test.
func receive[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("timed out waiting for %s", what)
		panic("unreachable")
	}
}

func TestPublishSubscribe(t *testing.T) {
	c := bustest.New(t)
	got := make(chan bus.Message, 16)
	sub, err := c.Subscribe(t.Context(), "a.*", func(m bus.Message) { got <- m })
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := c.Publish(t.Context(), "a.b", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		if m := receive(t, got, "a message"); string(m.Data) != fmt.Sprint(i) || m.Subject != "a.b" {
			t.Fatalf("message %d is %q at %s", i, m.Data, m.Subject)
		}
	}
	sub.Unsubscribe()
	receive(t, sub.Done(), "the end of the subscription")
	if err := errors.Join(c.Publish(t.Context(), "a.b", nil), c.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	if len(got) != 0 {
		t.Error("a message came after the end of the subscription")
	}
	if err := c.Publish(t.Context(), "a.b", make([]byte, c.MaxPayload()+1)); !errors.Is(err, bus.ErrTooLarge) {
		t.Errorf("publishing too much: %v", err)
	}
}

// TestReadPause follows messages that come one by one through a connection whose reads pause: the first is read at
// once, all others together.
func TestReadPause(t *testing.T) {
	const pause = time.Second
	server := bustest.NewServer(t)
	cfg := server.Config()
	cfg.ReadPause = pause
	reader, sender := server.ConnectAs(cfg), server.Connect()
	type arrival struct {
		text string
		at   time.Time
	}
	got := make(chan arrival, 16)
	if _, err := reader.Subscribe(t.Context(), "a", func(m bus.Message) { got <- arrival{string(m.Data), time.Now()} }); err != nil {
		t.Fatal(err)
	}
	if err := reader.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-time.After(3 * pause) // The greeting and the pause after it are over.
	const messages = 5
	var first arrival
	for i := range messages {
		if err := errors.Join(sender.Publish(t.Context(), "a", fmt.Append(nil, i)), sender.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = receive(t, got, "the first message")
		}
		<-time.After(pause / 20) // Each could be read before the next is sent.
	}
	sent := time.Now()
	for i := range messages {
		m := first
		if i > 0 {
			m = receive(t, got, "a message")
		}
		if m.text != fmt.Sprint(i) {
			t.Errorf("message %d is %q", i, m.text)
		}
		// On a busy machine, sending may take longer than the pause.
		if i > 0 && sent.Sub(first.at) < pause && m.at.Before(sent) {
			t.Errorf("message %d was read before the last was sent", i)
		}
	}
}

func TestSubscriptionEndsWithContext(t *testing.T) {
	c := bustest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	one, err := c.Subscribe(ctx, "a", func(bus.Message) {})
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.SubscribeAll(ctx, []string{"b", "c"}, func(bus.Message) {})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	receive(t, one.Done(), "the end of a subscription")
	receive(t, all.Done(), "the end of a subscription to several subjects")
}

func TestSubscribeAllKeepsTheServersOrder(t *testing.T) {
	server := bustest.NewServer(t)
	sender, receiver := server.Connect(), server.Connect()
	const n = 2000
	got := make(chan string, 2*n)
	_, err := receiver.SubscribeAll(t.Context(), []string{"even", "odd"}, func(m bus.Message) { got <- string(m.Data) }, bus.Pending(n, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := sender.Publish(t.Context(), []string{"even", "odd"}[i%2], fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		if m := receive(t, got, "a message"); m != fmt.Sprint(i) {
			t.Fatalf("message %d is %s", i, m)
		}
	}
}

func TestSlowHandlerLosesMessages(t *testing.T) {
	c := bustest.New(t)
	for name, subscribe := range map[string]func(ctx context.Context, handler func(bus.Message), opts ...bus.SubscribeOption) (*bus.Subscription, error){
		"one": func(ctx context.Context, handler func(bus.Message), opts ...bus.SubscribeOption) (*bus.Subscription, error) {
			return c.Subscribe(ctx, "x", handler, opts...)
		},
		"all": func(ctx context.Context, handler func(bus.Message), opts ...bus.SubscribeOption) (*bus.Subscription, error) {
			return c.SubscribeAll(ctx, []string{"x"}, handler, opts...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			release, lost := make(chan struct{}), make(chan error, 100)
			sub, err := subscribe(t.Context(), func(bus.Message) { <-release },
				bus.Pending(2, 1<<20), bus.OnLoss(func(err error) { lost <- err }))
			if err != nil {
				t.Fatal(err)
			}
			for range 10 {
				if err := c.Publish(t.Context(), "x", []byte("x")); err != nil {
					t.Fatal(err)
				}
			}
			if err := receive(t, lost, "the notice of the loss"); !errors.Is(err, bus.ErrSlow) {
				t.Errorf("the loss is %v", err)
			}
			close(release)
			sub.Unsubscribe()
			receive(t, sub.Done(), "the end of the subscription")
		})
	}
}

func TestQueueGroupGetsEachMessageOnce(t *testing.T) {
	server := bustest.NewServer(t)
	got := make(chan string, 100)
	for range 3 {
		c := server.Connect()
		if _, err := c.QueueSubscribe(t.Context(), "work", "group", func(m bus.Message) { got <- string(m.Data) }); err != nil {
			t.Fatal(err)
		}
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c := server.Connect()
	for i := range 30 {
		if err := c.Publish(t.Context(), "work", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	for range 30 {
		m := receive(t, got, "a message")
		if seen[m] {
			t.Errorf("message %s came twice", m)
		}
		seen[m] = true
	}
}

// TestRequest checks that the server reports a missing responder at once, while a silent responder
// or an unreachable server proves nothing.
func TestRequest(t *testing.T) {
	server := bustest.NewServer(t)
	c, other := server.Connect(), server.Connect()
	if _, err := c.Request(t.Context(), "a", nil); !errors.Is(err, bus.ErrNoResponders) {
		t.Errorf("request without a responder: %v", err)
	}
	if _, err := other.Subscribe(t.Context(), "a", func(m bus.Message) {
		if string(m.Data) == "ask" {
			if err := other.Publish(t.Context(), m.Reply, []byte("answer")); err != nil {
				t.Error(err)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := other.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if m, err := c.Request(ctx, "a", []byte("ask")); err != nil || string(m.Data) != "answer" {
		t.Errorf("got %q, %v", m.Data, err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if m, err := c.Request(short, "a", nil); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, bus.ErrNoResponders) {
		t.Errorf("request to a silent responder: %q, %v", m.Data, err)
	}
	server.Stop()
	// Without a server, a request ends with its context.
	ended, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := c.Request(ended, "nobody", nil); err == nil || errors.Is(err, bus.ErrNoResponders) {
		t.Errorf("request without a server: %v", err)
	}
}

func TestNoResponders(t *testing.T) {
	c := bustest.New(t)
	inbox, got := c.NewInbox(), make(chan bus.Message, 1)
	if !subject.IsInbox(inbox) {
		t.Errorf("%s is not an inbox", inbox)
	}
	if _, err := c.Subscribe(t.Context(), inbox, func(m bus.Message) { got <- m }); err != nil {
		t.Fatal(err)
	}
	if err := c.PublishRequest(t.Context(), "nobody.home", inbox, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, got, "an answer"); !m.NoResponders() {
		t.Errorf("got %+v", m)
	}
}

func TestReconnect(t *testing.T) {
	server := bustest.NewServer(t)
	cfg := server.Config()
	registry := prometheus.NewRegistry()
	cfg.Registerer = registry
	c, err := bus.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, back := make(chan bus.Message, 16), make(chan struct{}, 16)
	if _, err := c.Subscribe(t.Context(), "a", func(m bus.Message) { got <- m }); err != nil {
		t.Fatal(err)
	}
	cancel := c.OnReconnect(func() { back <- struct{}{} })
	defer cancel()

	server.Stop()
	deadline := time.Now().Add(patience)
	// A write may fail before the connection is known to be lost.
	for err = nil; (err == nil || c.Connected()) && time.Now().Before(deadline); {
		err = c.Publish(t.Context(), "a", []byte("lost"))
	}
	if !errors.Is(err, bus.ErrDisconnected) || c.Connected() {
		t.Fatalf("publishing without a server: %v, connected %v", err, c.Connected())
	}
	server.Start()
	receive(t, back, "the connection")
	if err := c.Publish(t.Context(), "a", []byte("found")); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, got, "a message after the reconnect"); string(m.Data) != "found" {
		t.Errorf("got %q", m.Data)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "garboard_bus_reconnects_total" {
			continue
		}
		if n := family.GetMetric()[0].GetCounter().GetValue(); n != 1 {
			t.Errorf("%v reconnects were counted, want 1", n)
		}
		return
	}
	t.Error("reconnects are not counted")
}

// TestFirstConnectionIsNoReconnection checks that the first connection triggers no reconnect
// callback of a caller that waited for it.
func TestFirstConnectionIsNoReconnection(t *testing.T) {
	server := bustest.NewServer(t)
	for range 100 {
		c, err := bus.Connect(t.Context(), server.Config())
		if err != nil {
			t.Fatal(err)
		}
		var calls atomic.Int32
		c.OnReconnect(func() { calls.Add(1) })
		c.Close() // No callback comes after it.
		if calls.Load() > 0 {
			t.Fatal("the callback was called for the first connection")
		}
	}
}

func TestConnectWaitsForTheServer(t *testing.T) {
	server := bustest.NewServer(t)
	server.Stop()
	connected, cfg := make(chan error, 1), server.Config()
	go func() {
		c, err := bus.Connect(t.Context(), cfg)
		if err == nil {
			c.Close()
		}
		connected <- err
	}()
	server.Start()
	if err := receive(t, connected, "the connection"); err != nil {
		t.Error(err)
	}
}

// TestDialWithoutAServer checks that a connection dialled without a server reports that, and comes
// up by itself. Then its subscriptions are active, and its callbacks are called.
func TestDialWithoutAServer(t *testing.T) {
	server := bustest.NewServer(t)
	server.Stop()
	c, err := bus.Dial(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Connected() {
		t.Error("connected without a server")
	}
	up := make(chan struct{}, 1)
	defer c.OnReconnect(func() { up <- struct{}{} })()
	got := make(chan bus.Message, 1)
	if _, err := c.Subscribe(t.Context(), "a", func(m bus.Message) { got <- m }); err != nil {
		t.Fatal(err)
	}
	if err := c.Publish(t.Context(), "a", nil); !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("publishing without a server: %v", err)
	}
	server.Start()
	receive(t, up, "the connection")
	if !c.Connected() {
		t.Error("the callback was called, but the connection is down")
	}
	if err := c.Publish(t.Context(), "a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, got, "a message"); string(m.Data) != "x" {
		t.Errorf("got %q: a message published without a server must not arrive later", m.Data)
	}
}

// TestDialThatNeverComesUp checks that a connection that never came up can be closed, and that a
// configuration error is returned at once.
func TestDialThatNeverComesUp(t *testing.T) {
	server := bustest.NewServer(t)
	server.Stop()
	c, err := bus.Dial(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := bus.Dial(bus.Config{}); err == nil {
		t.Error("dialled without an address")
	}
}

func TestConnectGivesUpWithItsContext(t *testing.T) {
	server := bustest.NewServer(t)
	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := bus.Connect(ctx, server.Config()); err == nil {
		t.Error("connected without a server")
	}
	if _, err := bus.Connect(t.Context(), bus.Config{}); err == nil {
		t.Error("connected without an address")
	}
	cfg := server.Config()
	cfg.CAFile = "no/such/file"
	if _, err := bus.Connect(t.Context(), cfg); err == nil {
		t.Error("connected without the certificate")
	}
}

func TestInProcessAndCredentials(t *testing.T) {
	srv, err := embedded.New(embedded.Config{Port: embedded.NoListener, StoreDir: t.TempDir(), User: "u", Password: "p"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	if err := srv.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if srv.URL() != "" {
		t.Errorf("a server without a listener has the URL %s", srv.URL())
	}
	c, err := bus.Connect(ctx, bus.Config{InProcess: srv.InProcess(), User: "u", Password: "p"})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestWrongPassword(t *testing.T) {
	srv, err := embedded.New(embedded.Config{Port: embedded.RandomPort, User: "u", Password: "p"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	if err := srv.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	// It retries until the deadline; a busy server may not have refused it by then.
	for brief := 200 * time.Millisecond; ; brief *= 2 {
		short, stop := context.WithTimeout(ctx, brief)
		c, err := bus.Connect(short, bus.Config{URLs: []string{srv.URL()}, User: "u", Password: "wrong"})
		stop()
		if err == nil {
			c.Close()
			t.Fatal("connected with a wrong password")
		}
		if strings.Contains(err.Error(), "Authorization Violation") {
			return
		}
		if brief > patience {
			t.Fatalf("the error lacks the reason: %v", err)
		}
	}
}

func TestEmbeddedSaysWhyItCannotStart(t *testing.T) {
	server := bustest.NewServer(t)
	var port int
	if _, err := fmt.Sscanf(server.Config().URLs[0], "nats://127.0.0.1:%d", &port); err != nil {
		t.Fatal(err)
	}
	srv, err := embedded.New(embedded.Config{Port: port})
	if err != nil {
		t.Fatal(err)
	}
	err = srv.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("running at an occupied port: %v", err)
	}
	if err := srv.Ready(t.Context()); err == nil {
		t.Error("a server at an occupied port is ready")
	}
}
