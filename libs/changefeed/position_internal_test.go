package changefeed

import (
	"testing"

	"github.com/garboard/garboard/libs/fabric"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// TestAcceptance judges messages at a position at revision 10. prevs are the revisions of the
// previous change everywhere, in the namespace and in the scope.
func TestAcceptance(t *testing.T) {
	type prevs struct{ all, namespace, scope int64 }
	const put, left, progress = watchv1.Type_TYPE_PUT, watchv1.Type_TYPE_LEFT, watchv1.Type_TYPE_PROGRESS
	everywhere, namespace, scope := fabric.View{}, fabric.View{Namespace: "a"}, fabric.View{Scope: "n"}
	both, name := fabric.View{Namespace: "a", Scope: "n"}, fabric.View{Namespace: "a", Name: "x"}
	for _, tc := range []struct {
		what     string
		view     fabric.View
		kind     watchv1.Type
		revision int64
		prevs    prevs
		want     fabric.Verdict
	}{
		{"the next one", everywhere, put, 11, prevs{10, 11, 11}, fabric.Next},
		{"a missing one before it", everywhere, put, 12, prevs{11, 3, 3}, fabric.Beyond},
		{"an old previous change", everywhere, put, 12, prevs{9, 3, 3}, fabric.Next},
		{"the current revision", everywhere, put, 10, prevs{9, 9, 9}, fabric.Known},
		{"an older revision", everywhere, put, 9, prevs{8, 8, 8}, fabric.Known},
		{"the next one of a namespace", namespace, put, 15, prevs{14, 10, 14}, fabric.Next},
		{"a missing one in the namespace", namespace, put, 15, prevs{3, 11, 3}, fabric.Beyond},
		{"the next one of a scope", scope, put, 15, prevs{14, 14, 10}, fabric.Next},
		{"a missing one in the scope", scope, put, 15, prevs{3, 3, 11}, fabric.Beyond},
		{"the next one of both, by the scope", both, put, 15, prevs{14, 14, 10}, fabric.Next},
		{"the next one of both, by the namespace", both, put, 15, prevs{14, 10, 14}, fabric.Next},
		{"a missing one in both", both, put, 15, prevs{3, 11, 11}, fabric.Beyond},
		{"any newer one of a name", name, put, 15, prevs{14, 14, 14}, fabric.Next},
		{"an old one of a name", name, put, 10, prevs{3, 3, 3}, fabric.Known},
		{"a left message, by the scope that it left", both, left, 15, prevs{14, 14, 10}, fabric.Next},
		{"a missing one in the scope that it left", both, left, 15, prevs{3, 3, 11}, fabric.Beyond},
		{"progress", namespace, progress, 15, prevs{10, 0, 0}, fabric.Next},
		{"progress beyond the position", namespace, progress, 15, prevs{11, 0, 0}, fabric.Beyond},
	} {
		p := position{view: tc.view, at: fabric.Position{History: fabric.History{Created: 2, Nonce: 2}, Revision: 10}, known: true}
		m := &watchv1.Message{
			History: &watchv1.History{Created: 2, Nonce: 2}, Type: tc.kind, Revision: tc.revision, Namespace: "a", Name: "x",
			PrevAll: tc.prevs.all, PrevNamespace: tc.prevs.namespace, PrevScope: tc.prevs.scope,
		}
		if got := p.judge(m); got != tc.want {
			t.Errorf("%s: got verdict %d, want %d", tc.what, got, tc.want)
		}
		m.History = &watchv1.History{Created: 1, Nonce: 9}
		if got := p.judge(m); got != fabric.Known {
			t.Errorf("%s, of an older history: got verdict %d", tc.what, got)
		}
		m.History = &watchv1.History{Created: 2, Nonce: 3}
		if got := p.judge(m); got != fabric.Beyond {
			t.Errorf("%s, of a newer history: got verdict %d", tc.what, got)
		}
		if p.known = false; p.judge(m) != fabric.Next {
			t.Errorf("%s: it does not follow at an unknown position", tc.what)
		}
	}
}
