package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// testCache is a cache whose revision the test sets.
type testCache struct {
	mu       sync.Mutex
	revision int64
	stopped  bool
	moved    chan struct{}
	// waits is the number of current waits, most the highest number at a time.
	waits, most int
}

func newTestCache() *testCache { return &testCache{moved: make(chan struct{})} }

func (s *testCache) Revision() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

func (s *testCache) set(revision int64, stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision, s.stopped = revision, stopped
	close(s.moved)
	s.moved = make(chan struct{})
}

var errStopped = errors.New("stopped")

func (s *testCache) WaitForRevision(ctx context.Context, revision int64) error {
	s.mu.Lock()
	s.waits++
	s.most = max(s.most, s.waits)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waits--
	}()
	for {
		s.mu.Lock()
		at, stopped, moved := s.revision, s.stopped, s.moved
		s.mu.Unlock()
		switch {
		case at >= revision:
			return nil
		case stopped:
			return errStopped
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// parkingLog is a parking that logs the keys that leave it.
type parkingLog struct {
	parking[string]
	begin time.Time
	mu    sync.Mutex
	left  []string
}

func newParkingLog() *parkingLog {
	l := &parkingLog{begin: time.Now()}
	l.freed = func(_ context.Context, p *parked[string], err error) {
		how := "seen"
		switch {
		case errors.Is(err, errStopped):
			how = "stopped"
		case err != nil:
			how = "late"
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.left = append(l.left, fmt.Sprintf("%s %s %d at %v", p.key, how, p.priority, time.Since(l.begin)))
	}
	return l
}

func (l *parkingLog) add(ctx context.Context, on cache, key string, revision int64, priority int, within time.Duration) {
	now := time.Now()
	l.park(ctx, &parked[string]{key: key, priority: priority, revision: revision, since: now, until: now.Add(within)}, on)
}

func TestParking(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(ctx context.Context, l *parkingLog, s *testCache)
		want []string
	}{
		{"each key at its revision", func(ctx context.Context, l *parkingLog, s *testCache) {
			l.add(ctx, s, "a", 5, 0, time.Minute)
			l.add(ctx, s, "b", 3, 0, time.Minute) // added later, for a lower revision
			time.Sleep(time.Second)
			s.set(3, false)
			time.Sleep(time.Second)
			s.set(9, false)
		}, []string{"b seen 0 at 1s", "a seen 0 at 2s"}},
		{"each key at its time", func(ctx context.Context, l *parkingLog, s *testCache) {
			l.add(ctx, s, "a", 5, 0, 3*time.Second)
			l.add(ctx, s, "b", 6, 0, time.Second)
		}, []string{"b late 0 at 1s", "a late 0 at 3s"}},
		{"a parked key stays", func(ctx context.Context, l *parkingLog, s *testCache) {
			l.add(ctx, s, "a", 5, -100, 2*time.Second)
			time.Sleep(time.Second)
			l.add(ctx, s, "a", 7, 0, 2*time.Second)
			l.add(ctx, s, "a", 7, -100, 2*time.Second)
			s.set(5, false)
		}, []string{"a seen 0 at 1s"}},
		{"a taken key is not freed", func(ctx context.Context, l *parkingLog, s *testCache) {
			l.add(ctx, s, "a", 5, 0, time.Minute)
			l.add(ctx, s, "b", 6, 0, time.Minute)
			synctest.Wait()
			l.take("a")
			s.set(6, false)
		}, []string{"b seen 0 at 0s"}},
		{"a taken key that is parked again waits anew", func(ctx context.Context, l *parkingLog, s *testCache) {
			l.add(ctx, s, "a", 5, 0, time.Minute)
			synctest.Wait()
			l.take("a")
			l.add(ctx, s, "a", 8, 0, time.Minute)
			s.set(5, false)
			time.Sleep(time.Second)
			s.set(8, false)
		}, []string{"a seen 0 at 1s"}},
		{"a cache that stops", func(ctx context.Context, l *parkingLog, s *testCache) {
			l.add(ctx, s, "a", 5, 0, time.Minute)
			time.Sleep(time.Second)
			s.set(0, true)
		}, []string{"a stopped 0 at 1s"}},
		{"a line that was empty", func(ctx context.Context, l *parkingLog, s *testCache) {
			l.add(ctx, s, "a", 5, 0, time.Minute)
			s.set(5, false)
			time.Sleep(time.Second)
			l.add(ctx, s, "a", 6, 0, time.Minute)
			s.set(6, false)
		}, []string{"a seen 0 at 0s", "a seen 0 at 1s"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, s := newParkingLog(), newTestCache()
				tt.do(t.Context(), l, s)
				l.waiters.Wait()
				if !slices.Equal(l.left, tt.want) {
					t.Errorf("left are %q, want %q", l.left, tt.want)
				}
				if len(l.keys) != 0 || len(l.lines) != 0 {
					t.Errorf("%d keys and %d lines are kept", len(l.keys), len(l.lines))
				}
			})
		})
	}
}

// TestParkingEndsWithItsContext checks that the end of the context ends the waits, and frees
// nothing.
func TestParkingEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := newParkingLog()
		for i := range 10 {
			l.add(ctx, newTestCache(), fmt.Sprint(i), 5, 0, time.Minute)
		}
		synctest.Wait()
		cancel()
		l.waiters.Wait()
		if len(l.left) != 0 || time.Since(l.begin) != 0 {
			t.Errorf("left are %q after %v", l.left, time.Since(l.begin))
		}
	})
}

// TestParkingAtRandom parks, takes and frees keys at random. A key that is not taken is freed once,
// never before its revision or its time, and as soon as either has come. One goroutine waits for a
// cache, for any number of keys.
func TestParkingAtRandom(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			s := newTestCache()
			l := &parkingLog{begin: time.Now()}
			due := map[string]*parked[string]{}
			l.freed = func(_ context.Context, p *parked[string], err error) {
				l.mu.Lock()
				defer l.mu.Unlock()
				if due[p.key] != p {
					t.Errorf("seed %d: %s is freed and was not parked", seed, p.key)
				}
				delete(due, p.key)
				if reached, late := s.Revision() >= p.revision, !time.Now().Before(p.until); reached == (err != nil) || !reached && !late {
					t.Errorf("seed %d: %s is freed at revision %d of %d, at %v of %v: %v", seed, p.key, s.Revision(), p.revision, time.Now(), p.until, err)
				}
			}
			for step := range 300 {
				key := fmt.Sprint(random.IntN(20))
				switch random.IntN(6) {
				case 0, 1, 2:
					p := &parked[string]{key: key, revision: s.Revision() + 1 + random.Int64N(9), since: time.Now(), until: time.Now().Add(time.Duration(1+random.IntN(9)) * time.Second)}
					l.mu.Lock()
					if due[key] == nil {
						due[key] = p
					}
					l.mu.Unlock()
					l.park(t.Context(), p, s)
				case 3:
					l.mu.Lock()
					if taken := l.take(key); taken != due[key] {
						t.Errorf("seed %d: taken is %v, parked was %v", seed, taken, due[key])
					}
					delete(due, key)
					l.mu.Unlock()
				case 4:
					s.set(s.Revision()+random.Int64N(4), false)
				default:
					time.Sleep(time.Duration(random.IntN(3)) * time.Second)
				}
				synctest.Wait()
				l.mu.Lock()
				for _, p := range due {
					if s.Revision() >= p.revision || !time.Now().Before(p.until) {
						t.Errorf("seed %d, step %d: %s should have been freed", seed, step, p.key)
					}
				}
				l.mu.Unlock()
			}
			l.waiters.Wait()
			if s.most > 1 {
				t.Errorf("seed %d: %d goroutines waited for one cache", seed, s.most)
			}
			if len(due) != 0 || len(l.keys) != 0 || len(l.lines) != 0 {
				t.Errorf("seed %d: %v are left", seed, due)
			}
		})
	}
}
