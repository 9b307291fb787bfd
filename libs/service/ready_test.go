package service

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/garboard/garboard/libs/informer/watcher"
)

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
		after time.Duration
		why   causes
		want  string
	}{
		"ready, other faults":       {0, causes{api: down, nats: lost}, ""},
		"ready in time":             {400 * time.Millisecond, causes{api: silent, nats: lost}, ""},
		"no known cause":            {time.Hour, causes{}, names},
		"no cause":                  {time.Hour, causes{api: func(context.Context) error { return nil }, nats: func() error { return nil }}, names},
		"the API is down":           {time.Hour, causes{api: down}, names + "\nthe API at x does not answer: refused"},
		"the API is silent":         {time.Hour, causes{api: silent}, names + "\nthe API at x does not answer in time"},
		"the API and NATS are down": {time.Hour, causes{api: down, nats: lost}, names + "\nthe API at x does not answer: refused\nwaiting for NATS at nats://x"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				text := ""
				if err := check(ctx, sheep{time.Now(), c.after}, c.why); err != nil {
					text = err.Error()
				}
				if text != c.want {
					t.Errorf("got %q, want %q", text, c.want)
				}
			})
		})
	}
}
