package bus_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/callout"
	"github.com/garboard/garboard/libs/bus/embedded"
	"github.com/garboard/garboard/libs/bus/subject"
)

// renewedWithin is longer than a wanted renewal may wait.
const renewedWithin = 3 * time.Second

// renewing is a NATS server whose clients have rights that change.
type renewing struct {
	t      *testing.T
	server *bustest.Server
	// rights are what connections may subscribe to from now on; admitted counts the clients.
	rights   atomic.Pointer[[]string]
	admitted atomic.Int64
}

func startRenewing(t *testing.T) *renewing {
	t.Helper()
	keys, auth := bustest.NewKeys(t)
	r := &renewing{t: t, server: bustest.NewServerWith(t, embedded.Config{Auth: auth})}
	r.grant()
	conn := r.server.ConnectAs(bus.Config{Name: "apiserver", Seed: keys.UserSeed()})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := callout.Serve(ctx, callout.Config{Conn: conn, Keys: keys, Decide: r.decide}); err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	if err := conn.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *renewing) decide(_ context.Context, shown callout.Credentials) (callout.Grant, error) {
	r.admitted.Add(1)
	rights := subject.RightsOf(subject.Client{Inbox: shown.Inbox, Identity: shown.Token})
	rights.Subscribe = append(rights.Subscribe, *r.rights.Load()...)
	return callout.Grant{Identity: shown.Token, User: shown.Token, Rights: rights, Expires: time.Now().Add(time.Hour)}, nil
}

func (r *renewing) grant(subjects ...string) { r.rights.Store(&subjects) }

// refused subscribes and waits until NATS refuses that.
func (r *renewing) refused(conn *bus.Conn, subjects ...string) *bus.Subscription {
	r.t.Helper()
	denied := make(chan error, 100)
	sub, err := conn.SubscribeAll(r.t.Context(), subjects, func(bus.Message) {}, bus.OnLoss(func(err error) { denied <- err }))
	if err != nil {
		r.t.Fatal(err)
	}
	if err := receive(r.t, denied, "a refusal"); !errors.Is(err, bus.ErrDenied) {
		r.t.Fatal(err)
	}
	return sub
}

// TestRenew: many refused subscriptions get rights that came later, with a single reconnect. One that
// the server does not refuse causes none.
func TestRenew(t *testing.T) {
	t.Parallel()
	r := startRenewing(t)
	conn := r.server.ConnectAs(bus.Config{Name: "client", Token: "u"})
	back := make(chan struct{}, 100)
	conn.OnReconnect(func() { back <- struct{}{} })
	heard := make(chan bus.Message, 100)
	own, err := conn.Subscribe(t.Context(), conn.NewInbox(), func(m bus.Message) { heard <- m })
	if err != nil {
		t.Fatal(err)
	}
	own.Renew()
	var subs []*bus.Subscription
	for i := range 100 {
		subs = append(subs, r.refused(conn, fmt.Sprintf("gb.watch.g.r%d.>", i), fmt.Sprintf("gb.watch.g.r%d.~progress", i)))
	}
	before := r.admitted.Load()
	r.grant("gb.watch.>")
	for _, sub := range subs {
		for range 3 {
			sub.Renew()
		}
	}
	receive(t, back, "the reconnect")
	for i, sub := range subs {
		if sub.Denied() {
			t.Errorf("subscription %d is still refused", i)
		}
		sub.Renew()
	}
	if got := r.admitted.Load() - before; got != 1 {
		t.Errorf("the client was admitted %d times for 100 subscriptions, want once", got)
	}
}

// TestRenewInVain: a connection is not renewed again and again for a right that it does not get.
func TestRenewInVain(t *testing.T) {
	t.Parallel()
	r := startRenewing(t)
	conn := r.server.ConnectAs(bus.Config{Name: "client", Token: "u"})
	back := make(chan struct{}, 100)
	conn.OnReconnect(func() { back <- struct{}{} })
	sub := r.refused(conn, "gb.watch.g.r.>")
	before := r.admitted.Load()
	sub.Renew()
	receive(t, back, "the reconnect")
	// The next one comes after ten seconds at the earliest.
	quiet := time.NewTimer(renewedWithin)
	defer quiet.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case <-tick.C:
			sub.Renew()
		case <-quiet.C:
			waiting = false
		}
	}
	if got := r.admitted.Load() - before; got != 1 {
		t.Errorf("the client was admitted %d times within a few seconds, want once", got)
	}
	if !sub.Denied() {
		t.Error("the subscription is not refused")
	}
}
