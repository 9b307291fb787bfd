package subject_test

import (
	"testing"

	"github.com/garboard/garboard/libs/bus/subject"
)

func TestIsInbox(t *testing.T) {
	for at, want := range map[string]bool{
		"_INBOX.abc.def": true, "_INBOX.abc": false, "gb.watch.core.pods.~.a.b": false, "$JS.API.STREAM.LIST": false,
		"_INBOX.abc.>": false, "_INBOX.*.x": false, "_INBOX..x": false, "_INBOX.a.": false, "_INBOX.a..b": false,
		"_INBOX.a.b.": false, "_INBOXES.a.b": false, "_INBOX.a.b c": false,
	} {
		if got := subject.IsInbox(at); got != want {
			t.Errorf("IsInbox(%q) = %v, want %v", at, got, want)
		}
	}
}

func TestOwns(t *testing.T) {
	me := subject.Client{Inbox: "me"}
	for at, want := range map[string]bool{
		"_INBOX.me.x": true, "_INBOX.me.from.other.x": true, "_INBOX.me": false, "_INBOX.me.": false, "_INBOX.me.>": false, "_INBOX.me.*": false,
		"_INBOX.mean.x": false, "_INBOX.other.x": false, "gb.watch.core.pods.~.me.x": false, "$JS.API.INFO": false, "": false, "_inbox.me.x": false,
	} {
		if me.Owns(at) != want {
			t.Errorf("%q: %v", at, !want)
		}
	}
	if (subject.Client{}).Owns("_INBOX..x") {
		t.Error("an empty Client owns an inbox")
	}
}

// TestInboxFor checks which peer may answer at an inbox: the owner of the inbox that asked, the
// agent of the node that was asked, or only the apiservers.
func TestInboxFor(t *testing.T) {
	own, peer := subject.Inbox("me"), subject.Inbox("other")
	for asked, want := range map[string]string{
		"gb.api.other.user":                "_INBOX.me.x",
		peer + ".y":                        "_INBOX.me.from.other.x",
		peer + ".from.me.y":                "_INBOX.me.from.other.x",
		subject.NodeAPI("n.1"):             "_INBOX.me.from.~node-n~2e1.x",
		subject.Watch("", "a", "", "", ""): "_INBOX.me.x",
	} {
		got := subject.InboxFor(own, asked, "x")
		if got != want || !subject.IsInbox(got) {
			t.Errorf("for %s: got %s, want %s", asked, got, want)
		}
		if isPeers := want == "_INBOX.me.from.other.x"; subject.IsInboxFor(got, peer) != isPeers || subject.IsInboxFor(got, own) {
			t.Errorf("%s is the peer's: %t, and its owner's: %t", got, !isPeers, subject.IsInboxFor(got, own))
		}
	}
	for _, at := range []string{"_INBOX.me.from.other", "_INBOX.me.from.other.x.y", "_INBOX.me.to.other.x", "_INBOX.me.from.other.*"} {
		if subject.IsInboxFor(at, peer) {
			t.Errorf("%s is the peer's", at)
		}
	}
}

// TestMaySpeak checks that a client may speak at the inboxes below those that InboxFor returned for
// it, and nowhere else. PeerInboxes must cover exactly these.
func TestMaySpeak(t *testing.T) {
	own, client := subject.Inbox("me"), subject.Client{Inbox: "other", Identity: "who"}
	at := subject.InboxFor(own, subject.Inbox("other")+".y", "api") + ".7"
	if !client.MaySpeak(at) {
		t.Errorf("the peer may not speak at %s", at)
	}
	for name, refused := range map[string]bool{
		"another client":         (subject.Client{Inbox: "me"}).MaySpeak(at),
		"nobody":                 (subject.Client{}).MaySpeak("_INBOX.me.from..api.7"),
		"one token less":         client.MaySpeak("_INBOX.me.from.other.api"),
		"one token more":         client.MaySpeak(at + ".8"),
		"an ordinary inbox":      client.MaySpeak("_INBOX.me.for.other.api.7"),
		"not an inbox":           client.MaySpeak("gb.me.from.other.api.7"),
		"a pattern of all peers": client.MaySpeak(subject.PeerInboxes(own, "api")),
	} {
		if refused {
			t.Errorf("%s may speak", name)
		}
	}
	if got := subject.PeerInboxes(own, "api"); got != "_INBOX.me.from.*.api.*" {
		t.Errorf("the pattern is %s", got)
	}
}
