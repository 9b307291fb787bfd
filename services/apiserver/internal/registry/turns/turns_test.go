package turns

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// TestTurns has costly validations wait while as many run as may, and not beyond the end of their requests. Others do
// not wait.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, kind := New(), &scheme.Kind{Resource: "widgets"}
		costly, cheap := &kinds.Definition{Kind: kind, Costly: true}, &kinds.Definition{Kind: kind}
		var mu sync.Mutex
		running, most := 0, 0
		for range size() + 3 {
			go func() {
				end, err := turns.Take(t.Context(), costly)
				if err != nil {
					t.Error(err)
					return
				}
				defer end(true)
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				running--
			}()
		}
		synctest.Wait()
		began := time.Now()
		end, err := turns.Take(t.Context(), cheap)
		if err != nil || time.Since(began) != 0 {
			t.Fatalf("a cheap validation waited for %v: %v", time.Since(began), err)
		}
		end(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := turns.Take(ctx, costly); !apierrors.IsTimeout(err) {
			t.Errorf("got %v for a request that ends before its turn, want its end", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if most != size() || running != 0 {
			t.Errorf("%d ran at a time and %d still do, want %d and 0", most, running, size())
		}
		if end, err = turns.Take(t.Context(), costly); err != nil {
			t.Fatalf("got %v from free turns", err)
		}
		end(true)
	})
}

// TestFailedValidations has a user whose validations fail wait between them, and nobody else.
func TestFailedValidations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each, window = 100 * time.Millisecond, time.Minute
		turns, costly := New(), &kinds.Definition{Kind: &scheme.Kind{Resource: "widgets"}, Costly: true}
		validate := func(ctx context.Context, user string, valid bool) (waited time.Duration, err error) {
			began := time.Now()
			end, err := turns.Take(authn.WithUser(ctx, authn.User{Name: user}), costly)
			if err != nil {
				return 0, err
			}
			waited = time.Since(began)
			time.Sleep(each)
			end(valid)
			return waited, nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), window)
		defer cancel()
		var failed atomic.Int64
		for range 8 {
			go func() {
				for {
					if _, err := validate(ctx, "hostile", false); err != nil {
						return
					}
					failed.Add(1)
				}
			}()
		}
		time.Sleep(time.Second)
		for range 10 {
			if waited, err := validate(ctx, "other", true); err != nil || waited > each {
				t.Errorf("another user waited for %v: %v", waited, err)
			}
		}
		short, cancelShort := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancelShort()
		if _, err := validate(short, "hostile", true); !apierrors.IsTimeout(err) {
			t.Errorf("got %v for a request that ends before its user's debt does, want its end", err)
		}
		<-ctx.Done()
		time.Sleep(window)
		// Those that ran when there was no debt yet come on top.
		if most := int64((share*window.Seconds()+allowed.Seconds())/each.Seconds()) + int64(size()) + 1; failed.Load() > most || failed.Load() < most/2 {
			t.Errorf("%d validations that fail ran, want %d to %d", failed.Load(), most/2, most)
		}
		if waited, err := validate(t.Context(), "hostile", true); err != nil || waited != 0 {
			t.Errorf("after its debt the user waited for %v: %v", waited, err)
		}
	})
}
