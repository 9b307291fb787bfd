package callout_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/callout"
)

// TestEviction checks that the connections of clients whose identity is no longer valid end, also of
// those that another apiserver let in and of more than a server lists at once, and that no others do.
func TestEviction(t *testing.T) {
	t.Parallel()
	p := start(t)
	stop := p.serve()
	defer func() { stop() }()
	connect := func(user string) (*bus.Conn, chan struct{}) {
		c := p.server.ConnectAs(bus.Config{Name: user, Token: user})
		ended := make(chan struct{}, 100)
		c.OnReconnect(func() { ended <- struct{}{} })
		return c, ended
	}
	const many = 300 // more than one page
	for range many {
		connect("crowd")
	}
	_, good := connect("good")
	revoked, again := connect("revoked")
	// The apiserver that let them in is gone.
	stop()
	stop = p.serve()

	var mu sync.Mutex
	seen := map[string]int{}
	refused := false
	system := p.server.ConnectAs(bus.Config{Name: "system", Seed: p.keys.SystemSeed()})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		if err := callout.Evict(ctx, callout.EvictConfig{Conn: system, Every: 50 * time.Millisecond, Check: func(_ context.Context, identity string) error {
			mu.Lock()
			defer mu.Unlock()
			seen[identity]++
			if identity == "revoked" && !refused {
				refused = true
				return errors.New("revoked")
			}
			return nil
		}}); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-again:
	case <-time.After(deadline):
		t.Fatal("the connection was not ended")
	}
	if !revoked.Connected() {
		t.Error("the client is not let in again with a credential that is valid")
	}
	// A client that had to connect again is listed after the revoked one.
	all := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return seen["crowd"] >= many && seen["good"] > 0
	}
	patience, tick := time.After(deadline), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for over := false; !over && !all(); {
		select {
		case <-tick.C:
		case <-patience:
			over = true
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if seen["crowd"] < many || seen["good"] == 0 {
		t.Errorf("looked at %v", seen)
	}
	for identity := range seen {
		if strings.HasPrefix(identity, "U") {
			t.Errorf("looked at an apiserver %q", identity)
		}
	}
	select {
	case <-good:
		t.Error("the connection of another client ended")
	default:
	}
}

// TestSystemUserOnly checks that clients and the apiservers' ordinary user can neither list nor end
// connections.
func TestSystemUserOnly(t *testing.T) {
	t.Parallel()
	p := start(t)
	defer p.serve()()
	for name, cfg := range map[string]bus.Config{
		"client": {Name: "a", Token: "pods"}, "apiserver": {Name: "apiserver", Seed: p.keys.UserSeed()},
	} {
		c := p.server.ConnectAs(cfg)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		if m, err := c.Request(ctx, "$SYS.REQ.SERVER.PING.KICK", []byte(`{"cid":1}`)); err == nil {
			t.Errorf("%s: got %s", name, m.Data)
		}
		cancel()
	}
}
