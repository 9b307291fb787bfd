package fabricsource

import (
	"testing"
	"time"

	"github.com/garboard/garboard/libs/informer"
)

// TestOnlyWhatIsDueWakesTheLoop: a change that is the next one costs no turn of the loop; whatever the loop must act
// upon earlier than it would by itself, or over HTTP, does.
func TestOnlyWhatIsDueWakesTheLoop(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, tt := range map[string]struct {
		change func(m *machine)
		want   bool
	}{
		"nothing":               {func(*machine) {}, false},
		"the next change":       {func(m *machine) { m.change(now, statement{History: h1, Prev: 10, Revision: 11}, false) }, false},
		"progress":              {func(m *machine) { m.progress(now, h1, 10, 20, 1) }, false},
		"an old change":         {func(m *machine) { m.change(now, statement{History: h1, Prev: 3, Revision: 4}, false) }, false},
		"a gap":                 {func(m *machine) { m.change(now, statement{History: h1, Prev: 11, Revision: 12}, false) }, true},
		"a change left out":     {func(m *machine) { m.change(now, statement{History: h1, Prev: 10, Revision: 11}, true) }, true},
		"progress after a loss": {func(m *machine) { m.progress(now, h1, 11, 20, 1) }, true},
		"another history":       {func(m *machine) { m.progress(now, h2, 1, 1, 1) }, true},
		"a disturbance":         {func(m *machine) { m.disturbed(now) }, true},
		"a required revision":   {func(m *machine) { m.require(now, 12) }, true},
		"a revision that is":    {func(m *machine) { m.require(now, 10) }, false},
		"a refresh":             {func(m *machine) { m.refresh(now) }, true},
		"a failed ask":          {func(m *machine) { m.failed(now) }, true},
		"a refusal":             {func(m *machine) { m.refused(now) }, true},
		"HTTP takes over":       {func(m *machine) { m.leave(whyDenied) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(&store{pods: map[string]string{}, moved: make(chan struct{}, 1)}, true,
				func(time.Duration) time.Duration { return 0 }, newMetrics(nil).of("pods"))
			f := &follower{machine: m, wake: make(chan struct{}, 1), clock: func() time.Time { return now }}
			m.start(now)
			m.replace(h1, []informer.Object{}, 10, false)
			m.askAt, m.secondAt, m.fresh = time.Time{}, time.Time{}, false
			f.sleeps = m.next()
			f.do(func(time.Time) { tt.change(m) })
			if got := len(f.wake) == 1; got != tt.want {
				t.Errorf("woken: %v, want %v", got, tt.want)
			}
		})
	}
}
