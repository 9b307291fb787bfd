package bushttp_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/bus/bushttp/internal/bushttptest"
	"github.com/garboard/garboard/libs/bus/bushttp/serve"
	"github.com/garboard/garboard/libs/bus/bustest"
)

const (
	budget = 4 << 20
	// least is how far a writer may always be ahead of its reader.
	least = 32 << 10
)

// released waits until nothing is held.
func released(t *testing.T, of *bushttp.Budget) {
	t.Helper()
	enough := time.After(time.Minute)
	for tick := time.Tick(10 * time.Millisecond); of.Held() != 0; {
		select {
		case <-tick:
		case <-enough:
			t.Fatalf("%d bytes are held at the end", of.Held())
		}
	}
}

// TestBudget checks what callers hold that do not read, that others go on meanwhile, and that nothing is held after
// each kind of end.
func TestBudget(t *testing.T) {
	const size, slow = 8 << 20, 60
	nats := bustest.NewServer(t)
	bushttptest.Serve(t, nats.Connect(), bushttptest.Patience, func(w http.ResponseWriter, _ *http.Request) {
		part := make([]byte, 64<<10)
		for range size / len(part) {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})
	shared := bushttp.NewBudget(budget)
	var clients []*http.Client
	for range 2 {
		transport, err := bushttp.New(t.Context(), bushttp.Config{
			Conn: nats.Connect(), Patience: bushttptest.Patience, Budget: shared, Logger: bushttptest.Logger(t),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(transport.Close)
		clients = append(clients, &http.Client{Transport: transport})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var answers []*http.Response
	for i := range slow {
		response, err := clients[i%2].Do(bushttptest.Request(t, "GET", "http://api/slow", nil).WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		answers = append(answers, response)
		if held, most := shared.Held(), int64(budget+(i+1)*least); held > most {
			t.Fatalf("%d callers that do not read hold %d bytes, more than %d", i+1, held, most)
		}
	}
	// What came and is not read counts as much as what may come: another count follows each read.
	before := shared.Held()
	for _, response := range answers {
		if _, err := io.ReadFull(response.Body, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if held := shared.Held(); held != before-slow {
		t.Errorf("after a byte of each was read, callers hold %d bytes, want %d", held, before-slow)
	}
	if held := shared.Held(); held < budget/2 {
		t.Errorf("callers hold %d bytes: they are not ahead of their readers", held)
	}
	for _, client := range clients {
		if _, data := bushttptest.Do(t, client, bushttptest.Request(t, "GET", "http://api/fast", nil)); len(data) != size {
			t.Errorf("got %d bytes", len(data))
		}
	}
	// Some read to the end, some close, and the context of the rest ends.
	for i, response := range answers {
		switch i % 3 {
		case 0:
			if n, err := io.Copy(io.Discard, response.Body); err != nil || n != size-1 {
				t.Errorf("read %d bytes, %v", n, err)
			}
		case 1:
			_ = response.Body.Close()
		}
	}
	cancel()
	released(t, shared)
}

// TestBudgetOfRequests checks what handlers hold that do not read their requests.
func TestBudgetOfRequests(t *testing.T) {
	const slow = 60
	nats := bustest.NewServer(t)
	shared := bushttp.NewBudget(budget)
	begun, end := make(chan struct{}, slow), make(chan struct{})
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/all" {
			if n, err := io.Copy(io.Discard, r.Body); err != nil || n != 8<<20 {
				t.Errorf("read %d bytes, %v", n, err)
			}
			return
		}
		if _, err := io.ReadFull(r.Body, make([]byte, 1)); err != nil {
			t.Error(err)
		}
		begun <- struct{}{}
		<-end
	})
	bushttptest.ServeConfig(t, serve.Config{
		Conn: nats.Connect(), Handler: handler, Patience: bushttptest.Patience, Budget: shared, Logger: bushttptest.Logger(t),
	})
	client := &http.Client{Transport: bushttptest.Open(t, nats.Connect(), bushttptest.Patience)}
	done := make(chan error, slow)
	for i := range slow {
		go func() {
			response, err := client.Do(bushttptest.Request(t, "POST", "http://api/slow", io.LimitReader(&endless{}, 8<<20)))
			if err == nil {
				err = response.Body.Close()
			}
			done <- err
		}()
		bushttptest.Receive(t, begun, "a handler")
		if held, most := shared.Held(), int64(budget+(i+1)*least); held > most {
			t.Fatalf("%d handlers that do not read hold %d bytes, more than %d", i+1, held, most)
		}
	}
	if response, _ := bushttptest.Do(t, client, bushttptest.Request(t, "POST", "http://api/all", io.LimitReader(&endless{}, 8<<20))); response.StatusCode != http.StatusOK {
		t.Errorf("got %s", response.Status)
	}
	// By now what was granted has come, and counts until it is read.
	if held := shared.Held(); held < budget {
		t.Errorf("handlers that do not read hold %d bytes, less than %d", held, budget)
	}
	close(end)
	for range slow {
		if err := bushttptest.Receive(t, done, "the end of a call"); err != nil {
			t.Error(err)
		}
	}
	released(t, shared)
}
