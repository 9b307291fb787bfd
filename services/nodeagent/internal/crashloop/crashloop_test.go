package crashloop_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/nodeagent/internal/crashloop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWaitDoublesUpToTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := crashloop.New(crashloop.Initial, crashloop.Max, crashloop.Reset)
		want := []time.Duration{
			0, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second,
			160 * time.Second, 5 * time.Minute, 5 * time.Minute,
		}
		for i, wait := range want {
			ended := time.Now()
			if got := b.Remaining("c", ended); got != wait {
				t.Fatalf("crash %d: wait %v, want %v", i, got, wait)
			}
			time.Sleep(wait)
			if got := b.Remaining("c", ended); got != 0 {
				t.Fatalf("crash %d: %v left after the wait", i, got)
			}
			b.Next("c", ended)
		}
	})
}

func TestLongRunForgives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := crashloop.New(crashloop.Initial, crashloop.Max, crashloop.Reset)
		for range 5 {
			b.Next("c", time.Now())
		}
		time.Sleep(crashloop.Reset + time.Second)
		ended := time.Now()
		if got := b.Remaining("c", ended); got != 0 {
			t.Errorf("wait %v after a long run, want none", got)
		}
		b.Next("c", ended)
		if got := b.Current("c"); got != crashloop.Initial {
			t.Errorf("the wait starts over with %v, want %v", got, crashloop.Initial)
		}
	})
}

func TestForget(t *testing.T) {
	b := crashloop.New(crashloop.Initial, crashloop.Max, crashloop.Reset)
	b.Next("gone", time.Now())
	b.Next("kept", time.Now())
	b.Forget(func(key string) bool { return key == "gone" })
	if b.Current("gone") != 0 || b.Current("kept") != crashloop.Initial {
		t.Errorf("gone waits %v, kept waits %v", b.Current("gone"), b.Current("kept"))
	}
}
