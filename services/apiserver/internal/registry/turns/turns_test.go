package turns

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/scheme"
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
				defer end()
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
		end()
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
		end()
	})
}
