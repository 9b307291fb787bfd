package routes_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/bus/bushttp/serve"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/callout"
	"github.com/garboard/garboard/libs/bus/embedded"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/services/apiserver/internal/server/routes"
)

// TestLocal: a request comes from the server's own machine if it comes from a loopback address with
// a port. A request over NATS has no port.
func TestLocal(t *testing.T) {
	for from, want := range map[string]bool{
		"127.0.0.1:1": true, "127.8.9.1:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true,
		"192.0.2.1:1": false, "[2001:db8::1]:1": false, "": false,
		"127.0.0.1": false, "::1": false, "[::1]": false, "::ffff:127.0.0.1": false, "::ffff:7f00:1": false, "localhost": false, "nats:inbox": false,
	} {
		if got := routes.Local(&http.Request{RemoteAddr: from}); got != want {
			t.Errorf("%q: got %v, want %v", from, got, want)
		}
	}
}

// TestACarriedRequestIsNotLocal: a client that asks over NATS from the server's own machine,
// without a token, does not learn why a check fails.
func TestACarriedRequestIsNotLocal(t *testing.T) {
	keys, auth := bustest.NewKeys(t)
	nats := bustest.NewServerWith(t, embedded.Config{Auth: auth})
	server := nats.ConnectAs(bus.Config{Name: "apiserver", Seed: keys.UserSeed()})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	running.Go(func() {
		if err := callout.Serve(ctx, callout.Config{Conn: server, Keys: keys, Decide: func(_ context.Context, shown callout.Credentials) (callout.Grant, error) {
			who := subject.IdentityAt("jane", shown.Host)
			return callout.Grant{Identity: who, User: "jane", Rights: subject.RightsOf(subject.Client{Inbox: shown.Inbox, Identity: who}), Expires: time.Now().Add(time.Hour)}, nil
		}}); err != nil {
			t.Errorf("admitting clients: %v", err)
		}
	})
	from := make(chan string, 1000)
	health := &routes.Health{Path: "/readyz", Logger: slog.New(slog.DiscardHandler), Checks: []routes.Check{
		{Name: "etcd", Run: func(context.Context) error { return errors.New("etcd at x does not answer") }},
	}}
	running.Go(func() {
		if err := serve.New(serve.Config{Conn: server, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			from <- r.RemoteAddr
			health.ServeHTTP(w, r)
		})}).Run(ctx); err != nil {
			t.Errorf("serving over NATS: %v", err)
		}
	})
	over, err := bushttp.New(t.Context(), bushttp.Config{Conn: nats.ConnectAs(bus.Config{Name: "jane", Token: "jane"})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(over.Close)
	client := &http.Client{Transport: over}
	var response *http.Response
	for end := time.Now().Add(time.Minute); ; {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api/readyz?verbose", nil)
		if err != nil {
			t.Fatal(err)
		}
		if response, err = client.Do(request); err == nil {
			break
		}
		// The server may not have subscribed yet.
		if !utilnet.IsConnectionRefused(err) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		t.Fatal(err)
	}
	if address := <-from; address != "127.0.0.1" {
		t.Errorf("the request comes from %q", address)
	}
	if want := "[-]etcd failed: reason withheld\nreadyz check failed\n"; response.StatusCode != http.StatusInternalServerError || string(body) != want {
		t.Errorf("got %d %q, want %q", response.StatusCode, body, want)
	}
}
