package subject_test

import (
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/bus/subject"
)

// TestRightsCoverOnlyTheClient checks that a client's own rights never cover another client's
// subjects.
func TestRightsCoverOnlyTheClient(t *testing.T) {
	rights := subject.RightsOf(subject.Client{Inbox: "me", Identity: "who"})
	for _, at := range append(rights.Publish, rights.Subscribe...) {
		if !strings.HasPrefix(at, "gb.ask.me.who.") && !strings.HasPrefix(at, "gb.history.me.who.") && at != "gb.api.me.who" &&
			at != "gb.report.me.who.*" && at != "gb.reports" && at != "gb.trace" && at != "gb.who.me" && at != "_INBOX.*.from.me.>" && at != "_INBOX.me.>" {
			t.Errorf("the client may use %s", at)
		}
	}
	node := subject.RightsOfNode("n.1")
	if len(node.Publish) != 1 || node.Publish[0] != "_INBOX.*.from.~node-n~2e1.>" || len(node.Subscribe) != 1 || node.Subscribe[0] != "gb.node.n~2e1.>" {
		t.Errorf("the rights of a node are %+v", node)
	}
}
