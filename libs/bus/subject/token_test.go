package subject_test

import (
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/bus/subject"
)

func TestParseTokenRefuses(t *testing.T) {
	for _, token := range []string{"", "~progress", "~7", "a~", "~7E", "~61", "a.b", "a b", subject.Token(strings.Repeat("x", 300)), strings.Repeat("x", 300)} {
		if name, err := subject.ParseToken(token); err == nil {
			t.Errorf("ParseToken(%q) = %q, want an error", token, name)
		}
	}
}

func FuzzToken(f *testing.F) {
	for _, s := range []string{"", "a", "~", "~h", "a.b*c>", "é", strings.Repeat("a", 256), "~7e", "\x00"} {
		f.Add(s, s+"~")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		ta, tb := subject.Token(a), subject.Token(b)
		if (ta == tb) != (a == b) {
			t.Fatalf("%q and %q have the tokens %q and %q", a, b, ta, tb)
		}
		if ta == "" || strings.ContainsAny(ta, ".*> \t\r\n\x00") || ta == "~progress" {
			t.Fatalf("the token of %q is %q", a, ta)
		}
		name, err := subject.ParseToken(ta)
		if len(a) > 255 {
			if err == nil {
				t.Fatalf("the hash of a long name was decoded as %q", name)
			}
			return
		}
		if err != nil || name != a {
			t.Fatalf("%q was decoded as %q, %v", a, name, err)
		}
	})
}

func FuzzParseToken(f *testing.F) {
	f.Add("~7e")
	f.Add("~h00")
	f.Fuzz(func(t *testing.T, token string) {
		if name, err := subject.ParseToken(token); err == nil && subject.Token(name) != token {
			t.Fatalf("%q is decoded as %q, which is encoded as %q", token, name, subject.Token(name))
		}
	})
}
