package bus_test

import (
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/bus"
)

func TestParseAsker(t *testing.T) {
	me := bus.Client{Inbox: "me", Identity: "who"}
	for _, subject := range []string{me.Ask("", "pods"), me.API(), me.History("apps", "deployments")} {
		if got, err := bus.ParseClient(subject); err != nil || got != me {
			t.Errorf("%s: %+v, %v", subject, got, err)
		}
	}
	for _, subject := range []string{"", "gb.ask", "gb.ask.", "gb.ask.me", "gb.ask..who.core.pods", "gb.ask.me..core", "gb.watch.core.pods.n1", "_INBOX.me.who"} {
		if got, err := bus.ParseClient(subject); err == nil {
			t.Errorf("ParseClient(%q) = %+v", subject, got)
		}
	}
}

func TestOwns(t *testing.T) {
	me := bus.Client{Inbox: "me"}
	for subject, want := range map[string]bool{
		"_INBOX.me.x": true, "_INBOX.me.from.other.x": true, "_INBOX.me": false, "_INBOX.me.": false, "_INBOX.me.>": false, "_INBOX.me.*": false,
		"_INBOX.mean.x": false, "_INBOX.other.x": false, "gb.watch.core.pods.~.me.x": false, "$JS.API.INFO": false, "": false, "_inbox.me.x": false,
	} {
		if me.Owns(subject) != want {
			t.Errorf("%q: %v", subject, !want)
		}
	}
	if (bus.Client{}).Owns("_INBOX..x") {
		t.Error("an empty Client owns an inbox")
	}
}

// TestRightsCoverOnlyTheClient checks that a client's own rights never cover another client's
// subjects.
func TestRightsCoverOnlyTheClient(t *testing.T) {
	rights := bus.RightsOf(bus.Client{Inbox: "me", Identity: "who"})
	for _, subject := range append(rights.Publish, rights.Subscribe...) {
		if !strings.HasPrefix(subject, "gb.ask.me.who.") && !strings.HasPrefix(subject, "gb.history.me.who.") && subject != "gb.api.me.who" &&
			subject != "gb.report.me.who.*" && subject != "gb.reports" && subject != "gb.trace" && subject != "gb.who.me" && subject != "_INBOX.*.from.me.>" && subject != "_INBOX.me.>" {
			t.Errorf("the client may use %s", subject)
		}
	}
	node := bus.RightsOfNode("n.1")
	if len(node.Publish) != 1 || node.Publish[0] != "_INBOX.*.from.~node-n~2e1.>" || len(node.Subscribe) != 1 || node.Subscribe[0] != "gb.node.n~2e1.>" {
		t.Errorf("the rights of a node are %+v", node)
	}
}

// TestInboxOf checks that the inbox part reveals nothing of the secret, and is one token.
func TestInboxOf(t *testing.T) {
	a, b := bus.InboxOf("secret"), bus.InboxOf("secret2")
	if a == b || a != bus.InboxOf("secret") || len(a) != 32 || strings.ContainsAny(a, ".*> ~") || strings.Contains(a, "secret") {
		t.Errorf("%q and %q", a, b)
	}
}
