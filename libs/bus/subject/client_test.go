package subject_test

import (
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/bus/subject"
)

func TestParseClient(t *testing.T) {
	me := subject.Client{Inbox: "me", Identity: "who"}
	for _, at := range []string{me.Ask("", "pods"), me.API(), me.History("apps", "deployments")} {
		if got, err := subject.ParseClient(at); err != nil || got != me {
			t.Errorf("%s: %+v, %v", at, got, err)
		}
	}
	for _, at := range []string{"", "gb.ask", "gb.ask.", "gb.ask.me", "gb.ask..who.core.pods", "gb.ask.me..core", "gb.watch.core.pods.n1", "_INBOX.me.who"} {
		if got, err := subject.ParseClient(at); err == nil {
			t.Errorf("ParseClient(%q) = %+v", at, got)
		}
	}
}

// TestIdentityAt checks that an identity with a host still names the user, and gives back the host.
func TestIdentityAt(t *testing.T) {
	for _, host := range []string{"", "10.0.0.1", "fe80::1%eth0", "node.example"} {
		c := subject.Client{Inbox: "me", Identity: subject.IdentityAt("user", host)}
		if c.Host() != host || c.User() != "user" || strings.Contains(c.Identity, ".") {
			t.Errorf("%q: the identity %s has the user %s and the host %q", host, c.Identity, c.User(), c.Host())
		}
	}
	if c := (subject.Client{Inbox: "me", Identity: subject.NoIdentity}); c.User() != "me" || c.Host() != "" {
		t.Errorf("without identities the user is %q and the host %q", c.User(), c.Host())
	}
	if host := (subject.Client{Identity: "user~~7E"}).Host(); host != "" {
		t.Errorf("a malformed host is read as %q", host)
	}
}

// FuzzParseClient checks that whatever subject names a client, the client's own subjects name it
// again and it owns no inbox but its own.
func FuzzParseClient(f *testing.F) {
	for _, seed := range []string{"gb.api.me.who", "gb.ask.me.who~10~2e0~2e0~2e1.core.pods", "gb.report.me.~.7", "gb.history.me", "gb.api..", "_INBOX.me.x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, at string) {
		c, err := subject.ParseClient(at)
		if err != nil {
			return
		}
		if c.Inbox == "" || c.Identity == "" || strings.Contains(c.Inbox+c.Identity, ".") {
			t.Fatalf("%q names %+v", at, c)
		}
		for _, own := range []string{c.API(), c.Ask("apps", "deployments"), c.History("", "pods"), c.Report("1")} {
			if again, err := subject.ParseClient(own); err != nil || again != c {
				t.Fatalf("%q names %+v, and its %q names %+v, %v", at, c, own, again, err)
			}
		}
		if c.Owns(subject.Inbox(c.Inbox+"x") + ".y") {
			t.Fatalf("%+v owns the inbox of another client", c)
		}
		_, _ = c.Host(), c.User()
	})
}
