package harness

import (
	"errors"
	"testing"
	"time"
)

// Patience is how long tests wait for an event that must come.
const Patience = time.Minute

// Eventually waits until a condition, which what describes, holds.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	Await(t, what, func() error {
		if holds() {
			return nil
		}
		return errors.New("not yet")
	})
}

// Await polls until check returns nil.
func Await(t testing.TB, what string, check func() error) {
	t.Helper()
	deadline := time.After(Patience)
	for pause := 10 * time.Millisecond; ; pause = min(pause*5/4, 100*time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-time.After(pause):
		case <-deadline:
			t.Fatalf("waiting for %s: %v", what, err)
		}
	}
}
