package daemon

import (
	"slices"
	"strings"
	"testing"
)

func TestProgramReturns(t *testing.T) {
	const mb = 1 << 20
	type check struct {
		mapped uint64
		idle   bool
		want   bool
	}
	for name, checks := range map[string][]check{
		"after the start":               {{120 * mb, false, false}, {120 * mb, true, true}, {40 * mb, true, false}},
		"what an idle process uses":     {{120 * mb, true, true}, {40 * mb, true, false}, {44 * mb, true, false}},
		"after requests":                {{120 * mb, true, true}, {40 * mb, true, false}, {80 * mb, false, false}, {80 * mb, true, true}},
		"busy after it was given back":  {{120 * mb, true, true}, {90 * mb, false, false}, {90 * mb, true, true}, {40 * mb, true, false}},
		"never more than once an idle":  {{120 * mb, true, true}, {110 * mb, true, false}, {110 * mb, true, false}},
		"a small program, or not Linux": {{6 * mb, true, false}, {0, true, false}},
	} {
		var p program
		for i, c := range checks {
			if got := p.returns(c.mapped, c.idle); got != c.want {
				t.Errorf("%s, check %d: got %t, want %t", name, i, got, c.want)
			}
		}
	}
}

const smaps = `00400000-03000000 r-xp 00000000 fe:00 123     /usr/bin/gar board
Size:              45056 kB
Rss:               40000 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
03000000-07000000 r--p 02c00000 fe:00 123     /usr/bin/gar board
Rss:               30000 kB
Anonymous:             4 kB
07000000-07100000 rw-p 06c00000 fe:00 123     /usr/bin/gar board
Rss:                 900 kB
Anonymous:           400 kB
07100000-07200000 rw-p 00000000 00:00 0
Rss:                 100 kB
Anonymous:           100 kB
c000000000-c004000000 rw-p 00000000 00:00 0   [anon: Go: heap]
Rss:               50000 kB
7f0000000000-7f0000001000 r--p 00000000 fe:00 9 /usr/lib/other
Rss:                   4 kB
Anonymous:             0 kB
7f0000002000-7f0000004000 r--s 00000000 fe:00 123     /usr/bin/gar board
Rss:                   8 kB
Anonymous:             0 kB
`

func TestMappings(t *testing.T) {
	want := []mapping{{0x400000, 0x3000000, 40000 << 10}, {0x7f0000002000, 0x7f0000004000, 8 << 10}}
	got, err := mappings(strings.NewReader(smaps), "/usr/bin/gar board")
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	got, err = mappings(strings.NewReader(smaps[:strings.Index(smaps, "07000000-07100000")]), "/usr/bin/gar board")
	if err != nil || !slices.Equal(got, want[:1]) {
		t.Errorf("a written one at the end: got %v, %v; want %v", got, err, want[:1])
	}
	for _, bad := range []string{
		"x-y r-xp 00000000 fe:00 123 /p\nRss: 1 kB\n",
		"1000-2000 r-xp 00000000 fe:00 123 /p\nRss: many kB\n",
		"1000-2000 r-xp 00000000 fe:00 123 /p\nRss: " + strings.Repeat("9", 1<<17) + " kB\n",
	} {
		if got, err := mappings(strings.NewReader(bad), "/p"); err == nil {
			t.Errorf("read %.80q as %v", bad, got)
		}
	}
}
