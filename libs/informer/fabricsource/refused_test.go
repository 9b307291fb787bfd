package fabricsource

import (
	"testing"
	"time"
)

// refuse makes a machine's ask be refused.
func refuse(t *testing.T, m *machine, now time.Time, unserved bool) {
	t.Helper()
	m.disturbed(now)
	if _, ok := tickUntilAsk(m, now); !ok {
		t.Fatal("nothing was asked")
	}
	m.unserved = unserved
	m.refused(now)
}

// TestWhyHTTP checks which reason is reported while HTTP has taken over.
func TestWhyHTTP(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(m *machine)
		want string
	}{
		"nothing":                  {func(*machine) {}, ""},
		"no server":                {func(m *machine) { m.away() }, whyUnreachable},
		"refused by NATS":          {func(m *machine) { m.hears(false) }, whyDenied},
		"forbidden":                {func(m *machine) { refuse(t, m, epoch, false) }, whyForbidden},
		"not served":               {func(m *machine) { refuse(t, m, epoch, true) }, whyUnserved},
		"forbidden, so refused":    {func(m *machine) { refuse(t, m, epoch, false); m.hears(false) }, whyForbidden},
		"refused since forbidden":  {func(m *machine) { m.hears(false); refuse(t, m, epoch, false) }, whyForbidden},
		"refused, but not by asks": {func(m *machine) { refuse(t, m, epoch, true); m.hears(false); m.answered(epoch, false) }, whyDenied},
		"unanswered": {func(m *machine) {
			m.disturbed(epoch)
			for now := epoch; now.Sub(epoch) < 2*unansweredLimit; now = now.Add(time.Second) {
				m.tick(now)
			}
		}, whyUnanswered},
		"heard again": {func(m *machine) { m.hears(false); m.hears(true); m.answered(epoch, false); m.tick(epoch) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := synced(t, true)
			c.do(m)
			if m.fallback != (c.want != "") || m.why != c.want {
				t.Errorf("HTTP has taken over: %t, %q; want %q", m.fallback, m.why, c.want)
			}
		})
	}
}

// TestARefusedViewReturnsAtOnce: a bus that only refused the view need not prove that it works.
func TestARefusedViewReturnsAtOnce(t *testing.T) {
	for name, unserved := range map[string]bool{"forbidden": false, "not served": true} {
		t.Run(name, func(t *testing.T) {
			m, _ := synced(t, true)
			refuse(t, m, epoch, unserved)
			now := epoch.Add(time.Second)
			if _, ok := m.tick(now); ok {
				t.Fatal("asked again at once")
			}
			// HTTP shows the view: the bus may too.
			m.readable(now)
			if _, ok := tickUntilAsk(m, now); !ok {
				t.Fatal("nothing was asked when HTTP showed the view")
			}
			m.answered(now, true)
			if m.tick(now); m.fallback {
				t.Error("HTTP was not left")
			}
		})
	}
	m, _ := synced(t, true)
	m.away()
	m.readable(epoch)
	if !m.askAt.IsZero() && m.askAt.Before(epoch.Add(time.Second)) {
		t.Error("an ask is planned although none was refused")
	}
}

// TestAnUnservedDeafViewAsksSoon: no message can tell a view whose subscription NATS refuses that its
// resource is served from now on. Other views hear of that.
func TestAnUnservedDeafViewAsksSoon(t *testing.T) {
	for name, c := range map[string]struct {
		deaf        bool
		least, most time.Duration
	}{
		"deaf":    {true, unservedRepeat, 2 * unservedRepeat},
		"hearing": {false, forbiddenRepeat, 2 * forbiddenRepeat},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := synced(t, true)
			m.hears(!c.deaf)
			refuse(t, m, epoch, true)
			_, now := nextAsk(t, m, epoch)
			if wait := now.Sub(epoch); wait < c.least || wait > c.most {
				t.Errorf("asked again after %v, want %v to %v", wait, c.least, c.most)
			}
		})
	}
}
