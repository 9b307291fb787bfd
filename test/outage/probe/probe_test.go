package probe

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		p := &Probe{Name: "write", Every: 100 * time.Millisecond, Timeout: time.Second, Probers: 2, Try: func(context.Context, int) error {
			if down.Load() {
				return errors.New("no")
			}
			return nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		time.Sleep(5 * time.Second)
		if got := p.Outage(); got.Failures != 0 || got.Longest > 100*time.Millisecond || got.Tries < 90 {
			t.Errorf("without a fault: %+v", got)
		}
		p.Mark()
		down.Store(true)
		time.Sleep(3 * time.Second)
		down.Store(false)
		time.Sleep(2 * time.Second)
		if got := p.Outage(); got.Longest < 3*time.Second || got.Longest > 3200*time.Millisecond || got.Failures < 50 || got.Last == nil {
			t.Errorf("with a fault of 3 s: %+v", got)
		}
		p.Mark()
		down.Store(true)
		time.Sleep(4 * time.Second)
		if got := p.Outage(); got.Longest < 4*time.Second || p.Well(time.Now().Add(-time.Second)) {
			t.Errorf("with a lasting fault: %+v", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestWellIsWhatBeganSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Probe{Every: time.Second, Timeout: time.Minute, Probers: 1, Try: func(context.Context, int) error {
			time.Sleep(4 * time.Second)
			return nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		time.Sleep(2 * time.Second)
		fault := time.Now()
		time.Sleep(4 * time.Second)
		if got := p.Outage(); got.Tries != 1 || p.Well(fault) {
			t.Errorf("well because of a try that started before the fault: %+v", got)
		}
		time.Sleep(4 * time.Second)
		if got := p.Outage(); got.Tries != 2 || !p.Well(fault) {
			t.Errorf("not well in spite of a try that started after the fault: %+v", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestTriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Probe{Every: time.Second, Timeout: 2 * time.Second, Probers: 1, Try: func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		time.Sleep(9500 * time.Millisecond)
		if got := p.Outage(); got.Failures != 3 {
			t.Errorf("%+v", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
