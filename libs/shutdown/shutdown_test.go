package shutdown_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/shutdown"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRun checks that stages that need a second each to end do so one after the other, whatever
// causes the shutdown.
func TestRun(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		// fails is the stage that ends by itself, with an error; -1 for none.
		fails int
		want  string
	}{
		"stopped":         {-1, "first@11s second@12s third@13s"},
		"the first fails": {0, "first@5s second@6s third@7s"},
		"the last fails":  {2, "third@5s first@6s second@7s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var order []string
				var log bytes.Buffer
				var stages []shutdown.Stage
				for i, name := range []string{"first", "second", "third"} {
					stages = append(stages, shutdown.Stage{Ended: name + " has ended", Run: func(ctx context.Context) error {
						defer func() { order = append(order, name+"@"+time.Since(began).String()) }()
						if i == c.fails {
							time.Sleep(5 * time.Second)
							return broken
						}
						<-ctx.Done()
						time.Sleep(time.Second)
						return ctx.Err()
					}})
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				err := shutdown.Run(ctx, slog.New(slog.NewTextHandler(&log, nil)), stages...)
				if (c.fails >= 0) != errors.Is(err, broken) || c.fails < 0 && err != nil {
					t.Errorf("Run returned %v", err)
				}
				if got := strings.Join(order, " "); got != c.want {
					t.Errorf("the stages ended as %s, want %s", got, c.want)
				}
				first, second := strings.Index(log.String(), "first has ended"), strings.Index(log.String(), `done="second has ended" took=1s`)
				if first < 0 || second < first {
					t.Errorf("the log is %s", log.String())
				}
			})
		})
	}
}
