package fabric_test

import (
	"testing"

	"github.com/garboard/garboard/libs/fabric"
)

func TestHistoryString(t *testing.T) {
	for id, want := range map[fabric.History]string{
		{}: "",
		{Created: 1800000000000000000, Nonce: 42}: "1800000000000000000-000000000000002a",
		{Created: 1, Nonce: 1<<64 - 1}:            "1-ffffffffffffffff",
	} {
		if got := id.String(); got != want {
			t.Errorf("the text of %+v is %q, want %q", id, got, want)
		}
		back, err := fabric.ParseHistory(want)
		if want != "" && (err != nil || back != id) || want == "" && err == nil {
			t.Errorf("%q is parsed as %+v, %v", want, back, err)
		}
	}
	for _, text := range []string{"-", "1", "1-", "-1", "x-1", "1-x", "1-2-3", "0-0", "1-10000000000000000"} {
		if id, err := fabric.ParseHistory(text); err == nil {
			t.Errorf("%q is parsed as %+v", text, id)
		}
	}
}

func TestHistoryOrder(t *testing.T) {
	rising := []fabric.History{{}, {Created: 1}, {Created: 1, Nonce: 1}, {Created: 1, Nonce: 1 << 63}, {Created: 2}}
	for i, a := range rising {
		for j, b := range rising {
			if a.Before(b) != (i < j) || (a.Compare(b) == 0) != (i == j) {
				t.Errorf("comparing %+v and %+v: got %d", a, b, a.Compare(b))
			}
		}
	}
}
