package wire

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
)

func mustName(t testing.TB, text string) Name {
	t.Helper()
	name, err := ParseName(text)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestParseName(t *testing.T) {
	for _, tt := range []struct {
		text, want string
		labels     int
		bad        bool
	}{
		{text: ".", want: "."},
		{text: "", want: "."},
		{text: "a", want: "a.", labels: 1},
		{text: "Web.Example.COM.", want: "web.example.com.", labels: 3},
		{text: `a\.b.c`, want: `a\.b.c.`, labels: 2},
		{text: `a\000b`, want: `a\000b.`, labels: 1},
		{text: "a..b", bad: true},
		{text: strings.Repeat("a", 63) + ".b", want: strings.Repeat("a", 63) + ".b.", labels: 2},
		{text: strings.Repeat("a", 64), bad: true},
		{text: strings.Repeat("a.", 127), want: strings.Repeat("a.", 127), labels: 127},
		{text: strings.Repeat("a.", 128), bad: true},
		{text: strings.Repeat("a.", 126) + "bb", bad: true},
	} {
		name, err := ParseName(tt.text)
		if (err != nil) != tt.bad {
			t.Errorf("%q: got error %v", tt.text, err)
			continue
		}
		if err != nil {
			continue
		}
		if name.String() != tt.want || name.Labels() != tt.labels {
			t.Errorf("%q: got %s with %d labels, want %s with %d", tt.text, name.String(), name.Labels(), tt.want, tt.labels)
		}
		if again := FromWire(name.Wire()); !again.Equal(&name) || again.Labels() != name.Labels() {
			t.Errorf("%q: its wire form is the name %s", tt.text, again.String())
		}
	}
	if got := new(Name).String(); got != "" {
		t.Errorf("no name is %q", got)
	}
}

func TestBelow(t *testing.T) {
	for _, tt := range []struct {
		name, other string
		labels      int
		below       bool
	}{
		{"a.b.c", "b.c", 1, true},
		{"b.c", "b.c", 0, true},
		{"a.b.c", ".", 3, true},
		{".", ".", 0, true},
		{".", "c", 0, false},
		{"c", "b.c", 0, false},
		{"ab.c", "b.c", 0, false},
		{"a.b.d", "b.c", 0, false},
		// The end of a label may look like labels.
		{`a\001b.c`, "b.c", 0, false},
	} {
		name, other := mustName(t, tt.name), mustName(t, tt.other)
		labels, below := name.Below(&other)
		if labels != tt.labels || below != tt.below {
			t.Errorf("%s below %s: got %d, %v", tt.name, tt.other, labels, below)
		}
	}
}

func TestParts(t *testing.T) {
	name, domain := mustName(t, "a.bb.ccc"), mustName(t, "d.e")
	if got := string(name.Label(1)); got != "bb" {
		t.Errorf("got label %q", got)
	}
	if got := string(name.From(1, 3)); got != "\x02bb\x03ccc" {
		t.Errorf("got labels %q", got)
	}
	joined, ok := name.Join(2, &domain)
	if !ok || joined.String() != "a.bb.d.e." {
		t.Errorf("joined to %s, %v", joined.String(), ok)
	}
	long := mustName(t, strings.Repeat("a.", 126))
	if _, ok := long.Join(126, &domain); ok {
		t.Error("joined to a name that is too long")
	}
	if joined, ok := long.Join(124, &domain); !ok || joined.Labels() != 126 {
		t.Errorf("joined to %s, %v", joined.String(), ok)
	}
}

// FuzzName compares names with those of the DNS library.
func FuzzName(f *testing.F) {
	for _, text := range []string{"", "\x00", "\x01a\x00", "\x03www\x07example\x03com\x00", "\xc0\x0c", "\x40a", "\x3f"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var name Name
		end, ok := name.read(data, 0)
		want, wantEnd, err := dns.UnpackDomainName(data, 0)
		compressed := false
		for at := 0; at < len(data) && data[at] != 0; at += 1 + int(data[at]) {
			if data[at] >= 0xc0 {
				compressed = true
				break
			}
		}
		switch {
		case compressed:
			if ok {
				t.Errorf("%q: got %s of a compressed name", data, name.String())
			}
		case ok != (err == nil):
			t.Errorf("%q: got %s, %v, want %s, %v", data, name.String(), ok, want, err)
		case ok && (!strings.EqualFold(name.String(), want) || end != wantEnd):
			t.Errorf("%q: got %s up to %d, want %s up to %d", data, name.String(), end, want, wantEnd)
		}
	})
}
