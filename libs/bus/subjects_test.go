package bus_test

import (
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/bus"
)

func TestSubjects(t *testing.T) {
	long := strings.Repeat("a", 256)
	for _, tc := range []struct{ name, got, want string }{
		{"namespaced", bus.WatchSubject("", "pods", "n1", "default", "web-0"), "gb.watch.core.pods.n1.default.web-0"},
		{"unbound", bus.WatchSubject("", "pods", "~", "default", "web-0"), "gb.watch.core.pods.~.default.web-0"},
		{"cluster-wide", bus.WatchSubject("", "nodes", "", "", "n1.example"), "gb.watch.core.nodes.~.~.n1~2eexample"},
		{"group with dots", bus.WatchSubject("events.k8s.io", "events", "~", "a", "b"), "gb.watch.events~2ek8s~2eio.events.~.a.b"},
		{"a group named core", bus.AskSubject("core", "things"), "gb.ask.*.*.~63ore.things"},
		{"progress", bus.ProgressSubject("apps", "deployments"), "gb.watch.apps.deployments.~progress"},
		{"a scope named ~progress", bus.WatchSubject("", "pods", "~progress", "", ""), "gb.watch.core.pods.~7eprogress.~.~"},
		{"whole view", bus.ViewSubject("", "pods", "", "", ""), "gb.watch.core.pods.>"},
		{"namespace view", bus.ViewSubject("", "pods", "", "default", ""), "gb.watch.core.pods.*.default.>"},
		{"scope view", bus.ViewSubject("", "pods", "n1", "", ""), "gb.watch.core.pods.n1.>"},
		{"unbound view", bus.ViewSubject("", "pods", "~", "", ""), "gb.watch.core.pods.~.>"},
		{"scope and namespace", bus.ViewSubject("", "pods", "n1", "a", ""), "gb.watch.core.pods.n1.a.>"},
		{"name view", bus.ViewSubject("", "pods", "", "default", "web-0"), "gb.watch.core.pods.*.default.web-0"},
		{"cluster-wide name view", bus.ViewSubject("", "nodes", "", "", "n1"), "gb.watch.core.nodes.*.~.n1"},
		{"node", bus.NodeSubject("n1.example", "logs"), "gb.node.n1~2eexample.logs"},
		{"changes", bus.ChangesSubject("apps", "deployments"), "gb.watch.apps.deployments.*.*.*"},
		{"candidate", bus.LeadSubject("publisher-events", "host.example_0a"), "gb.lead.publisher-events.host~2eexample_0a"},
		{"hostile", bus.Token("*> \t.~\x00é"), "~2a~3e~20~09~2e~7e~00~c3~a9"},
		{"long", bus.Token(long), "~h02d7160d77e18c6447be80c2e355c7ed4388545271702c50253b0914c65ce5fe"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, tc.got, tc.want)
		}
	}
}

func TestParseTokenRefuses(t *testing.T) {
	for _, token := range []string{"", "~progress", "~7", "a~", "~7E", "~61", "a.b", "a b", bus.Token(strings.Repeat("x", 300)), strings.Repeat("x", 300)} {
		if name, err := bus.ParseToken(token); err == nil {
			t.Errorf("ParseToken(%q) = %q, want an error", token, name)
		}
	}
}

func FuzzToken(f *testing.F) {
	for _, s := range []string{"", "a", "~", "~h", "a.b*c>", "é", strings.Repeat("a", 256), "~7e", "\x00"} {
		f.Add(s, s+"~")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		ta, tb := bus.Token(a), bus.Token(b)
		if (ta == tb) != (a == b) {
			t.Fatalf("%q and %q have the tokens %q and %q", a, b, ta, tb)
		}
		if ta == "" || strings.ContainsAny(ta, ".*> \t\r\n\x00") || ta == "~progress" {
			t.Fatalf("the token of %q is %q", a, ta)
		}
		name, err := bus.ParseToken(ta)
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
		if name, err := bus.ParseToken(token); err == nil && bus.Token(name) != token {
			t.Fatalf("%q is decoded as %q, which is encoded as %q", token, name, bus.Token(name))
		}
	})
}

func TestIsInbox(t *testing.T) {
	for subject, want := range map[string]bool{
		"_INBOX.abc.def": true, "_INBOX.abc": false, "gb.watch.core.pods.~.a.b": false, "$JS.API.STREAM.LIST": false,
		"_INBOX.abc.>": false, "_INBOX.*.x": false, "_INBOX..x": false, "_INBOX.a.": false, "_INBOX.a..b": false,
		"_INBOX.a.b.": false, "_INBOXES.a.b": false, "_INBOX.a.b c": false,
	} {
		if got := bus.IsInbox(subject); got != want {
			t.Errorf("IsInbox(%q) = %v, want %v", subject, got, want)
		}
	}
}
