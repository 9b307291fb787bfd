package main

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/bench/attackers"
)

func TestMain(m *testing.M) {
	// client-go keeps the connections of its clients.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"), goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run"))
}

// TestRun lets the program attack a server, which counts, and ends it with its input.
func TestRun(t *testing.T) {
	var counts [2]atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		switch {
		case strings.Contains(r.URL.Path, "/configmaps/ordinary-"):
			counts[0].Add(1)
		case strings.HasSuffix(r.URL.Path, "/traps") && r.URL.Query().Get("dryRun") == "All":
			counts[1].Add(1)
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
			return
		}
		_, _ = io.WriteString(w, `{"kind":"ConfigMap","apiVersion":"v1"}`)
	}))
	defer server.Close()
	in, orders := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(t.Context(), in, out) }()
	send, receive := json.NewEncoder(orders), json.NewDecoder(answers)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	err := send.Encode(attackers.Config{Namespace: "bench", Clients: 2, Sides: map[string]attackers.Side{"one": {Host: server.URL, CA: ca}}})
	if err != nil {
		t.Fatal(err)
	}
	var greeting attackers.Greeting
	if err := receive.Decode(&greeting); err != nil {
		t.Fatal(err)
	}
	if len(greeting.Attacks) != 5 || !strings.HasPrefix(greeting.URL, "https://") || len(greeting.CA) == 0 {
		t.Errorf("got %+v", greeting)
	}
	for i, name := range []string{attackers.Ordinary, greeting.Attacks[1]} {
		if err := send.Encode(attackers.Order{Attack: name, Side: "one", Length: 200 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		var outcome attackers.Outcome
		if err := receive.Decode(&outcome); err != nil {
			t.Fatal(err)
		}
		if got := counts[i].Load(); outcome.Error != "" || outcome.Sent == 0 || int64(outcome.Sent) > got {
			t.Errorf("%s: %+v; the server has counted %d", name, outcome, got)
		}
	}
	_ = orders.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
