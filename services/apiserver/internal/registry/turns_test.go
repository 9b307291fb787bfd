package registry

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// TestCostlyValidationsTakeTurns has costly validations wait while as many run as may, and others run at once.
func TestCostlyValidationsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &Registry{turns: newTurns()}
		of := func(costly bool) *Resource {
			return &Resource{registry: all, kind: &scheme.Kind{Resource: "widgets"}, strategy: &kinds.Definition{Costly: costly}}
		}
		turns, running, most := max(1, runtime.GOMAXPROCS(0)-1), 0, 0
		var mu sync.Mutex
		long := func() error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			running--
			return nil
		}
		for range turns + 3 {
			go func() {
				if err := of(true).inTurn(t.Context(), long); err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		began := time.Now()
		if err := of(false).inTurn(t.Context(), func() error { return nil }); err != nil || time.Since(began) != 0 {
			t.Errorf("a cheap validation returned %v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		refused := errors.New("invalid")
		if err := of(true).inTurn(ctx, func() error { return refused }); !apierrors.IsTimeout(err) {
			t.Errorf("got %v for a request that ends before its turn, want a timeout", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if most != turns {
			t.Errorf("%d ran at a time, want %d", most, turns)
		}
		if err := of(true).inTurn(t.Context(), func() error { return refused }); !errors.Is(err, refused) {
			t.Errorf("got %v, want the error of the validation", err)
		}
	})
}
