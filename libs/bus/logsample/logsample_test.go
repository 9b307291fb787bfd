package logsample_test

import (
	"testing"
	"time"

	"github.com/garboard/garboard/libs/bus/logsample"
)

func TestGate(t *testing.T) {
	var gate logsample.Gate
	now := time.Unix(1_800_000_000, 0)
	lines := 0
	for range 1000 {
		held, open := gate.Open(now)
		if open {
			lines++
		}
		if held != 0 {
			t.Errorf("%d lines were suppressed", held)
		}
		now = now.Add(time.Millisecond)
	}
	if lines != 10 {
		t.Errorf("%d of 1000 lines in a second were logged", lines)
	}
	if held, open := gate.Open(now.Add(time.Minute)); !open || held != 990 {
		t.Errorf("a minute later: open %t, %d suppressed", open, held)
	}
	if held, open := gate.Open(now.Add(time.Minute)); !open || held != 0 {
		t.Errorf("reported twice: open %t, %d suppressed", open, held)
	}
}
