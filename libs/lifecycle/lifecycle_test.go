package lifecycle_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/lifecycle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBroken = errors.New("port taken")

// diary records what stages do, and when.
type diary struct {
	mu    sync.Mutex
	began time.Time
	lines []string
}

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line+"@"+time.Since(d.began).String())
}

// String returns the lines, separated by a space.
func (d *diary) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.lines, " ")
}

// stage returns a stage that takes a second for everything: to start, to become ready, to finish
// and to end.
func (d *diary) stage(name string) lifecycle.Stage {
	second := func(what string) func(context.Context) error {
		return func(ctx context.Context) error {
			select {
			case <-time.After(time.Second):
				d.write(what + "-" + name)
				return nil
			case <-ctx.Done():
				d.write("no-" + what + "-" + name)
				return ctx.Err()
			}
		}
	}
	return lifecycle.Stage{
		Name: name, Start: second("start"), Ready: second("ready"), End: second("finish"),
		Run: func(ctx context.Context) error {
			<-ctx.Done()
			<-time.After(time.Second)
			d.write("end-" + name)
			return ctx.Err()
		},
	}
}

// run runs the stages a and b and the changed stage between them, for the given time.
func run(t *testing.T, lasts time.Duration, change func(*lifecycle.Stage)) (did, log string, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &diary{began: time.Now()}
		middle := d.stage("m")
		change(&middle)
		ctx, cancel := context.WithTimeout(t.Context(), lasts)
		defer cancel()
		var text bytes.Buffer
		err = lifecycle.Run(ctx, slog.New(slog.NewTextHandler(&text, nil)), d.stage("a"), middle, d.stage("b"))
		did, log = d.String(), text.String()
	})
	return did, log, err
}

func after(d time.Duration, err error) func(context.Context) error {
	return func(context.Context) error {
		<-time.After(d)
		return err
	}
}

func TestOrder(t *testing.T) {
	const begun = "start-a@1s ready-a@2s "
	const whole = begun + "start-m@3s ready-m@4s start-b@5s ready-b@6s "
	for name, c := range map[string]struct {
		lasts  time.Duration
		change func(*lifecycle.Stage)
		did    string
		err    string
	}{
		"ends in reverse": {
			time.Minute, func(*lifecycle.Stage) {},
			whole + "finish-b@1m1s end-b@1m2s finish-m@1m3s end-m@1m4s finish-a@1m5s end-a@1m6s", "",
		},
		"a stage without functions": {
			time.Minute, func(s *lifecycle.Stage) { *s = lifecycle.Stage{Name: "m"} },
			begun + "start-b@3s ready-b@4s finish-b@1m1s end-b@1m2s finish-a@1m3s end-a@1m4s", "",
		},
		"a stage that does not run": {
			time.Minute, func(s *lifecycle.Stage) { s.Run = nil },
			whole + "finish-b@1m1s end-b@1m2s finish-m@1m3s finish-a@1m4s end-a@1m5s", "",
		},
		"told to end before the start": {
			0, func(*lifecycle.Stage) {}, "", "",
		},
		"told to end while a stage starts": {
			2500 * time.Millisecond, func(*lifecycle.Stage) {},
			begun + "no-start-m@2.5s finish-a@3.5s end-a@4.5s", "",
		},
		"told to end while a stage becomes ready": {
			3500 * time.Millisecond, func(*lifecycle.Stage) {},
			begun + "start-m@3s no-ready-m@3.5s finish-m@4.5s end-m@5.5s finish-a@6.5s end-a@7.5s", "",
		},
		"cannot start": {
			time.Minute, func(s *lifecycle.Stage) { s.Start = after(time.Second, errBroken) },
			// The patience of the stages that end is over.
			begun + "no-finish-a@3s end-a@4s", "m: port taken",
		},
		"is never ready": {
			time.Minute, func(s *lifecycle.Stage) { s.Ready = after(time.Second, errBroken) },
			begun + "start-m@3s no-finish-m@4s end-m@5s no-finish-a@5s end-a@6s", "waiting until m is ready: port taken",
		},
		"fails before it is ready": {
			time.Minute, func(s *lifecycle.Stage) { s.Run = after(500*time.Millisecond, errBroken) },
			begun + "start-m@3s no-ready-m@3.5s no-finish-m@3.5s no-finish-a@3.5s end-a@4.5s", "m: port taken",
		},
		"fails while a later one starts": {
			time.Minute, func(s *lifecycle.Stage) { s.Run = after(1500*time.Millisecond, errBroken) },
			begun + "start-m@3s ready-m@4s no-start-b@4.5s no-finish-m@4.5s no-finish-a@4.5s end-a@5.5s", "m: port taken",
		},
		"fails while it runs": {
			time.Minute, func(s *lifecycle.Stage) { s.Run = after(27*time.Second, errBroken) },
			whole + "no-finish-b@30s end-b@31s no-finish-m@31s no-finish-a@31s end-a@32s", "m: port taken",
		},
		"ends by itself": {
			time.Minute, func(s *lifecycle.Stage) { s.Run = after(27*time.Second, nil) },
			whole + "no-finish-b@30s end-b@31s no-finish-m@31s no-finish-a@31s end-a@32s", "m: ended unexpectedly",
		},
		"ends by itself once the process is told to": {
			time.Minute, func(s *lifecycle.Stage) { s.Run = after(57500*time.Millisecond, nil) },
			whole + "finish-b@1m1s end-b@1m2s finish-m@1m3s finish-a@1m4s end-a@1m5s", "",
		},
		"fails while a later one finishes": {
			time.Minute, func(s *lifecycle.Stage) { s.Run = after(57500*time.Millisecond, errBroken) },
			whole + "no-finish-b@1m0.5s end-b@1m1.5s no-finish-m@1m1.5s no-finish-a@1m1.5s end-a@1m2.5s", "m: port taken",
		},
		"cannot finish": {
			time.Minute, func(s *lifecycle.Stage) { s.End = after(time.Second, errBroken) },
			whole + "finish-b@1m1s end-b@1m2s end-m@1m4s no-finish-a@1m4s end-a@1m5s", "ending m: port taken",
		},
		"fails when it is told to end": {
			time.Minute, func(s *lifecycle.Stage) {
				s.Run = func(ctx context.Context) error { <-ctx.Done(); return errBroken }
			},
			whole + "finish-b@1m1s end-b@1m2s finish-m@1m3s no-finish-a@1m3s end-a@1m4s", "ending m: port taken",
		},
	} {
		t.Run(name, func(t *testing.T) {
			did, _, err := run(t, c.lasts, c.change)
			if did != c.did {
				t.Errorf("the stages did\n%s, want\n%s", did, c.did)
			}
			if text := errorText(err); text != c.err {
				t.Errorf("got the error %q, want %q", text, c.err)
			}
			if c.err != "" && !strings.Contains(c.err, "unexpectedly") && !errors.Is(err, errBroken) {
				t.Errorf("%v does not wrap its cause", err)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestErrorsAreJoined checks that every stage's error is returned, and that one error of one stage
// is returned once.
func TestErrorsAreJoined(t *testing.T) {
	second := errors.New("disk full")
	_, _, err := run(t, time.Minute, func(s *lifecycle.Stage) {
		s.Ready = after(time.Second, errBroken)
		s.Run = func(ctx context.Context) error { <-ctx.Done(); return errBroken }
		s.End = func(context.Context) error { return second }
	})
	if text := errorText(err); text != "waiting until m is ready: port taken\nending m: disk full" {
		t.Errorf("got %q", text)
	}
}

// TestLog checks that each step is logged, and that a stage that takes long is logged meanwhile.
func TestLog(t *testing.T) {
	_, log, err := run(t, 5*time.Minute, func(s *lifecycle.Stage) { s.Start, s.End = after(11*time.Second, nil), after(25*time.Second, nil) })
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(log) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), "level=")
		got = append(got, text)
	}
	want := []string{
		`INFO msg="starting a stage" stage=a`, `INFO msg="a stage is ready" stage=a took=2s`,
		`INFO msg="starting a stage" stage=m`, `WARN msg="a stage is not ready yet" stage=m took=10s`, `INFO msg="a stage is ready" stage=m took=12s`,
		`INFO msg="starting a stage" stage=b`, `INFO msg="a stage is ready" stage=b took=2s`,
		`INFO msg="a stage has ended" stage=b took=2s`,
		`WARN msg="a stage has not ended yet" stage=m took=10s`, `WARN msg="a stage has not ended yet" stage=m took=20s`,
		`INFO msg="a stage has ended" stage=m took=26s`,
		`INFO msg="a stage has ended" stage=a took=2s`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("the log is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

type key struct{}

// TestContexts checks that every function gets the values of Run's context, and that the patience
// of End does not end with that context.
func TestContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		var calls atomic.Int32
		check := func(ctx context.Context) error {
			calls.Add(1)
			if ctx.Value(key{}) != "value" || ctx.Err() != nil {
				t.Errorf("the context has the value %v and the error %v", ctx.Value(key{}), ctx.Err())
			}
			return nil
		}
		err := lifecycle.Run(ctx, slog.New(slog.DiscardHandler), lifecycle.Stage{
			Name: "all", Start: check, Ready: check, End: check,
			Run: func(ctx context.Context) error { err := check(ctx); <-ctx.Done(); return err },
		}, lifecycle.Stage{Name: "last", Start: func(context.Context) error { cancel(); return nil }})
		if err != nil || calls.Load() != 4 {
			t.Errorf("%v, %d calls", err, calls.Load())
		}
	})
}
