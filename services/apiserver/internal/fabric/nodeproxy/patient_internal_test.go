package nodeproxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/garboard/garboard/libs/bus/bushttp"
)

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestPatient: only a request that no agent takes, and that has no body, is sent again, until one does or two seconds
// are over.
func TestPatient(t *testing.T) {
	absent, broken := fmt.Errorf("calling: %w", bushttp.ErrNoServer), errors.New("reset")
	for _, test := range []struct {
		name    string
		body    string
		back    time.Duration // when the agent is there
		err     error         // until then
		cancel  time.Duration
		want    error
		took    time.Duration
		atLeast int
	}{
		{"there", "", 0, absent, time.Hour, nil, 0, 1},
		{"soon", "", 300 * time.Millisecond, absent, time.Hour, nil, 300 * time.Millisecond, 4},
		{"never", "", time.Hour, absent, time.Hour, absent, 2 * time.Second, 20},
		{"broken", "", time.Second, broken, time.Hour, broken, 0, 1},
		{"a body", "x", time.Second, absent, time.Hour, absent, 0, 1},
		{"the client leaves", "", time.Hour, absent, 250 * time.Millisecond, absent, 250 * time.Millisecond, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, calls := time.Now(), 0
				ctx, cancel := context.WithTimeout(t.Context(), test.cancel)
				defer cancel()
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://node/exec", strings.NewReader(test.body))
				if err != nil {
					t.Fatal(err)
				}
				_, err = patient{tripper(func(*http.Request) (*http.Response, error) {
					if calls++; time.Since(began) < test.back {
						return nil, test.err
					}
					return &http.Response{}, nil
				})}.RoundTrip(r) //nolint:bodyclose // There is none.
				if took := time.Since(began); !errors.Is(err, test.want) || took != test.took || calls < test.atLeast {
					t.Errorf("got %v after %v and %d calls, want %v after %v", err, took, calls, test.want, test.took)
				}
			})
		})
	}
}
