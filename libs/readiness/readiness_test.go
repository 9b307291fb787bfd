package readiness_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/readiness"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sheep are informers of which some are synced after a while.
type sheep struct {
	start time.Time
	after time.Duration
}

func (s sheep) synced() bool { return time.Since(s.start) >= s.after }

func (s sheep) WaitForCacheSync(ctx context.Context) error {
	timer := time.NewTimer(s.after - time.Since(s.start))
	defer timer.Stop()
	if s.synced() {
		return nil
	}
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s sheep) Watchers() []watcher.Status {
	return []watcher.Status{
		{Resource: "pods", Synced: s.synced()}, {Resource: "deployments", Group: "apps", Synced: s.synced()},
		{Resource: "pods", Synced: s.synced()}, {Resource: "nodes", Synced: true},
	}
}

func TestCheck(t *testing.T) {
	down := func(context.Context) error { return errors.New("the API at x does not answer: refused") }
	silent := func(ctx context.Context) error {
		<-ctx.Done()
		return errors.New("the API at x does not answer in time")
	}
	lost := func() error { return errors.New("waiting for NATS at nats://x") }
	const names = "informer of deployments.apps, pods has no whole view yet"
	for name, c := range map[string]struct {
		after  time.Duration
		causes readiness.Causes
		want   string
	}{
		"ready, other faults":       {0, readiness.Causes{API: down, NATS: lost}, ""},
		"ready in time":             {400 * time.Millisecond, readiness.Causes{API: silent, NATS: lost}, ""},
		"no known cause":            {time.Hour, readiness.Causes{}, names},
		"no cause":                  {time.Hour, readiness.Causes{API: func(context.Context) error { return nil }, NATS: func() error { return nil }}, names},
		"the API is down":           {time.Hour, readiness.Causes{API: down}, names + "\nthe API at x does not answer: refused"},
		"the API is silent":         {time.Hour, readiness.Causes{API: silent}, names + "\nthe API at x does not answer in time"},
		"the API and NATS are down": {time.Hour, readiness.Causes{API: down, NATS: lost}, names + "\nthe API at x does not answer: refused\nwaiting for NATS at nats://x"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				text := ""
				if err := readiness.Check(ctx, sheep{time.Now(), c.after}, c.causes); err != nil {
					text = err.Error()
				}
				if text != c.want {
					t.Errorf("got %q, want %q", text, c.want)
				}
			})
		})
	}
}
