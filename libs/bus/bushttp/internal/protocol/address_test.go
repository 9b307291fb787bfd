package protocol

import "testing"

func TestSplitAddress(t *testing.T) {
	for subject, want := range map[string]struct {
		at     string
		number uint64
		ok     bool
	}{
		"_INBOX.a.from.b.api.z": {"_INBOX.a.from.b.api", 35, true},
		"_INBOX.a.7":            {"_INBOX.a", 7, true},
		"_INBOX.a.~":            {"_INBOX.a", 0, false},
		"_INBOX.a.":             {"_INBOX.a", 0, false},
		"7":                     {"", 0, false},
		"":                      {"", 0, false},
	} {
		if at, number, ok := SplitAddress(subject); at != want.at || number != want.number || ok != want.ok {
			t.Errorf("%q is split into %q, %d, %t", subject, at, number, ok)
		}
	}
}
