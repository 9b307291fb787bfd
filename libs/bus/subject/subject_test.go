package subject_test

import (
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/bus/subject"
)

func TestSubjects(t *testing.T) {
	long := strings.Repeat("a", 256)
	for _, tc := range []struct{ name, got, want string }{
		{"namespaced", subject.Watch("", "pods", "n1", "default", "web-0"), "gb.watch.core.pods.n1.default.web-0"},
		{"unbound", subject.Watch("", "pods", "~", "default", "web-0"), "gb.watch.core.pods.~.default.web-0"},
		{"cluster-wide", subject.Watch("", "nodes", "", "", "n1.example"), "gb.watch.core.nodes.~.~.n1~2eexample"},
		{"group with dots", subject.Watch("events.k8s.io", "events", "~", "a", "b"), "gb.watch.events~2ek8s~2eio.events.~.a.b"},
		{"a group named core", subject.Asks("core", "things"), "gb.ask.*.*.~63ore.things"},
		{"progress", subject.Progress("apps", "deployments"), "gb.watch.apps.deployments.~progress"},
		{"a scope named ~progress", subject.Watch("", "pods", "~progress", "", ""), "gb.watch.core.pods.~7eprogress.~.~"},
		{"whole view", subject.View("", "pods", "", "", ""), "gb.watch.core.pods.>"},
		{"namespace view", subject.View("", "pods", "", "default", ""), "gb.watch.core.pods.*.default.>"},
		{"scope view", subject.View("", "pods", "n1", "", ""), "gb.watch.core.pods.n1.>"},
		{"unbound view", subject.View("", "pods", "~", "", ""), "gb.watch.core.pods.~.>"},
		{"scope and namespace", subject.View("", "pods", "n1", "a", ""), "gb.watch.core.pods.n1.a.>"},
		{"name view", subject.View("", "pods", "", "default", "web-0"), "gb.watch.core.pods.*.default.web-0"},
		{"cluster-wide name view", subject.View("", "nodes", "", "", "n1"), "gb.watch.core.nodes.*.~.n1"},
		{"node", subject.NodeAPI("n1.example"), "gb.node.n1~2eexample.api"},
		{"changes", subject.Changes("apps", "deployments"), "gb.watch.apps.deployments.*.*.*"},
		{"candidate", subject.Lead("publisher-events", "host.example_0a"), "gb.lead.publisher-events.host~2eexample_0a"},
		{"hostile", subject.Token("*> \t.~\x00é"), "~2a~3e~20~09~2e~7e~00~c3~a9"},
		{"long", subject.Token(long), "~h02d7160d77e18c6447be80c2e355c7ed4388545271702c50253b0914c65ce5fe"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, tc.got, tc.want)
		}
	}
}
