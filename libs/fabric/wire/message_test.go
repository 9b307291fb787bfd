package wire_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/fabric/wire"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

func TestMessage(t *testing.T) {
	resource := schema.GroupResource{Group: "apps", Resource: "deployments"}
	change, progress := subject.Watch("apps", "deployments", "~", "a", "x"), subject.Progress("apps", "deployments")
	for name, tc := range map[string]struct {
		subject string
		change  func(*watchv1.Message)
		ok      bool
	}{
		"a change":                    {change, func(*watchv1.Message) {}, true},
		"progress":                    {progress, func(m *watchv1.Message) { m.Type = watchv1.Type_TYPE_PROGRESS }, true},
		"a removed resource":          {progress, func(m *watchv1.Message) { m.Type = watchv1.Type_TYPE_REMOVED }, true},
		"a removal at an object":      {change, func(m *watchv1.Message) { m.Type = watchv1.Type_TYPE_REMOVED }, false},
		"a gap":                       {progress, func(m *watchv1.Message) { m.Type = watchv1.Type_TYPE_GAP }, true},
		"a change at progress":        {progress, func(*watchv1.Message) {}, false},
		"progress at an object":       {change, func(m *watchv1.Message) { m.Type = watchv1.Type_TYPE_PROGRESS }, false},
		"another object's":            {change, func(m *watchv1.Message) { m.Name = "y" }, false},
		"another scope's":             {change, func(m *watchv1.Message) { m.Scope = "n1" }, false},
		"another resource's":          {subject.Watch("apps", "daemonsets", "~", "a", "x"), func(m *watchv1.Message) { m.Resource = "daemonsets" }, false},
		"another group's":             {subject.Watch("", "deployments", "~", "a", "x"), func(m *watchv1.Message) { m.Group = "" }, false},
		"no history":                  {change, func(m *watchv1.Message) { m.History = nil }, false},
		"no revision":                 {change, func(m *watchv1.Message) { m.Revision = 0 }, false},
		"an unknown type":             {change, func(m *watchv1.Message) { m.Type = 99 }, false},
		"before the one before it":    {change, func(m *watchv1.Message) { m.PrevAll = 9 }, false},
		"before one of the namespace": {change, func(m *watchv1.Message) { m.PrevNamespace = 10 }, false},
		"before one of the scope":     {change, func(m *watchv1.Message) { m.PrevScope = 11 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := &watchv1.Message{
				History: &watchv1.History{Created: 1, Nonce: 1}, Revision: 9, Type: watchv1.Type_TYPE_PUT,
				Group: "apps", Resource: "deployments", Scope: "~", Namespace: "a", Name: "x", PrevAll: 8,
			}
			tc.change(m)
			data, err := proto.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			got, err := wire.Message(resource, tc.subject, data)
			if (err == nil) != tc.ok || tc.ok && !proto.Equal(got, m) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	if _, err := wire.Message(resource, change, []byte("\xff")); err == nil {
		t.Error("garbage was accepted")
	}
}

// FuzzMessage checks that every accepted message belongs to its subject and follows its prevs.
func FuzzMessage(f *testing.F) {
	past := &watchv1.History{Created: 1, Nonce: 1}
	for _, m := range []*watchv1.Message{
		{History: past, Revision: 9, Type: watchv1.Type_TYPE_PUT, Resource: "pods", Namespace: "a", Name: "p", Scope: "n1", PrevAll: 8},
		{History: past, Revision: 9, Type: watchv1.Type_TYPE_PROGRESS, Resource: "pods", PrevAll: 9},
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(subject.Watch("", "pods", "n1", "a", "p"), data)
		f.Add(subject.Progress("", "pods"), data)
	}
	resource, view := schema.GroupResource{Resource: "pods"}, fabric.View{Scope: "n1"}
	f.Fuzz(func(t *testing.T, subject string, data []byte) {
		m, err := wire.Message(resource, subject, data)
		if err != nil || !view.Covers(m) {
			return
		}
		if !strings.HasPrefix(subject, "gb.watch.core.pods.") || m.GetRevision() <= 0 || view.Prev(m) >= m.GetRevision() {
			t.Fatalf("%v was accepted at %s", m, subject)
		}
	})
}
