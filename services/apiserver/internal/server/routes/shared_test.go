package routes

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestSharedCheck: however many callers ask and leave, only one check runs at a time, and only one
// per second.
func TestSharedCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, runs, together, failed atomic.Int32
		broken := errors.New("broken")
		check := Shared(func(ctx context.Context) error {
			if running.Add(1) > 1 {
				together.Add(1)
			}
			defer running.Add(-1)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
			if runs.Add(1) > 1 {
				return broken
			}
			return nil
		})
		// The first caller leaves at once; the check goes on for the others.
		leaves, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _ = check(leaves) })
		synctest.Wait()
		cancel()
		for range 400 {
			all.Go(func() {
				if check(t.Context()) != nil {
					failed.Add(1)
				}
			})
		}
		all.Wait()
		if runs.Load() != 1 || together.Load() != 0 || failed.Load() != 0 {
			t.Errorf("%d checks ran, %d of them concurrently, %d failed; want 1, 0, 0", runs.Load(), together.Load(), failed.Load())
		}
		time.Sleep(900 * time.Millisecond)
		if err := check(t.Context()); err != nil || runs.Load() != 1 {
			t.Errorf("within a second: got %v after %d checks, want no error after 1", err, runs.Load())
		}
		time.Sleep(100 * time.Millisecond)
		if err := check(t.Context()); !errors.Is(err, broken) || runs.Load() != 2 {
			t.Errorf("after a second: got %v after %d checks, want the second check's error", err, runs.Load())
		}
		if err := check(t.Context()); !errors.Is(err, broken) || runs.Load() != 2 {
			t.Errorf("once more: got %v after %d checks, want the second check's error", err, runs.Load())
		}
	})
}

// TestSharedCheckThatHangs: callers wait no longer than their own deadlines.
func TestSharedCheckThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		check := Shared(func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		var all sync.WaitGroup
		began := time.Now()
		for range 3 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := check(ctx); err == nil {
					t.Error("a check that hangs succeeded")
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took > checkTimeout {
			t.Errorf("waiting took %v", took)
		}
	})
}
