package ledger_test

import (
	"testing"

	"github.com/garboard/garboard/test/outage/ledger"
)

func TestLedger(t *testing.T) {
	for _, test := range []struct {
		name   string
		script func(l *ledger.Ledger) error // what happened to "o"; an error is a fault found by the script
		list   map[string]int
		faults int
		early  bool
	}{
		{name: "nothing", list: nil},
		{name: "created", script: done(1), list: map[string]int{"o": 1}},
		{name: "a lost create", script: done(1), list: nil, faults: 1},
		{name: "a lost update", script: done(1, 2), list: map[string]int{"o": 1}, faults: 1},
		{name: "deleted", script: done(1, ledger.Absent), list: nil},
		{name: "a lost delete", script: done(1, ledger.Absent), list: map[string]int{"o": 1}, faults: 1},
		{name: "never written", list: map[string]int{"o": 1}, faults: 1},
		{name: "an unknown write, done", script: unknown(2), list: map[string]int{"o": 2}},
		{name: "an unknown write, not done", script: unknown(2), list: map[string]int{"o": 1}},
		{name: "an unknown write, something else", script: unknown(2), list: nil, faults: 1},
		{name: "an unknown delete", script: unknown(ledger.Absent), list: nil},
		{name: "refused as existing", script: func(l *ledger.Ledger) error { l.Done("o", 1); return l.Refused("o", true) }, list: map[string]int{"o": 1}},
		{name: "refused as missing", script: func(l *ledger.Ledger) error { l.Done("o", 1); return l.Refused("o", false) }, list: map[string]int{"o": 1}, early: true},
		{name: "refused as existing, but never created", script: func(l *ledger.Ledger) error { return l.Refused("o", true) }, early: true},
		{name: "an unknown write, then refused as existing", script: func(l *ledger.Ledger) error { l.Unknown("o", 1); return l.Refused("o", true) }, list: nil, faults: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := ledger.New()
			if test.script != nil {
				if err := test.script(l); (err != nil) != test.early {
					t.Fatalf("running the script: %v", err)
				}
			}
			if faults := l.Compare(test.list); len(faults) != test.faults {
				t.Errorf("got the faults %v", faults)
			}
		})
	}
}

func done(states ...int) func(*ledger.Ledger) error {
	return func(l *ledger.Ledger) error {
		for _, state := range states {
			l.Done("o", state)
		}
		return nil
	}
}

func unknown(state int) func(*ledger.Ledger) error {
	return func(l *ledger.Ledger) error {
		l.Done("o", 1)
		l.Unknown("o", state)
		return nil
	}
}
