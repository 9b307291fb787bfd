package history

import (
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/test/chaos/record"
)

// bench is a checker with one informer, and short methods for what happens.
type bench struct {
	*Checker
	t *testing.T
}

func newBench(t *testing.T, view informer.View) bench {
	b := bench{NewChecker(), t}
	b.Handle(record.Event{Process: "p", What: record.Begin, Resource: "pods", View: &view})
	return b
}

// etcd records a change; an empty UID means a deletion.
func (b bench) etcd(revision int64, key, uid, node string) {
	b.Record([]Change{{Revision: revision, Resource: "pods", Key: key, UID: uid, Scope: node, Deleted: uid == ""}}, revision, 0)
}

func (b bench) saw(what string, revision int64, objects ...record.Object) {
	b.Handle(record.Event{Process: "p", What: what, Revision: revision, Objects: objects})
}

func obj(key, uid string, revision int64) record.Object {
	return record.Object{Key: key, UID: uid, Revision: revision}
}

func deleted(key, uid string) record.Object {
	return record.Object{Key: key, UID: uid, Deleted: true}
}

// story is the history of an etcd in which a is created, changed, deleted and recreated, and b is
// bound.
func (b bench) story() {
	b.etcd(10, "x/a", "a1", "~")
	b.etcd(11, "x/a", "a1", "~")
	b.etcd(12, "x/b", "b1", "~")
	b.etcd(13, "x/b", "b1", "n1")
	b.etcd(14, "x/a", "", "")
	b.etcd(15, "x/a", "a2", "n1")
}

func (b bench) wants(part string) {
	b.t.Helper()
	words, count := b.Violations()
	if part == "" {
		if count > 0 {
			b.t.Errorf("got violations in a correct history: %v", words)
		}
		return
	}
	if count == 0 || !strings.Contains(strings.Join(words, "\n"), part) {
		b.t.Errorf("got the violations %q, want one with %q", words, part)
	}
}

func TestChecker(t *testing.T) {
	whole, free := informer.View{}, informer.View{Scope: "~"}
	for name, c := range map[string]struct {
		view   informer.View
		report func(b bench)
		want   string // part of the violation; empty if there is none
	}{
		"a correct history": {whole, func(b bench) {
			b.saw(record.Replace, 11, obj("x/a", "a1", 11))
			b.saw(record.Add, 0, obj("x/a", "a1", 11))
			b.saw(record.Apply, 13, obj("x/b", "b1", 12), obj("x/b", "b1", 13))
			b.saw(record.Add, 0, obj("x/b", "b1", 12))
			b.saw(record.Update, 0, obj("x/b", "b1", 12), obj("x/b", "b1", 13))
			b.saw(record.Apply, 15, deleted("x/a", "a1"), obj("x/a", "a2", 15))
			b.saw(record.Delete, 0, obj("x/a", "a1", 11))
			b.saw(record.Add, 0, obj("x/a", "a2", 15))
		}, ""},
		"a move out of the view": {free, func(b bench) {
			b.saw(record.Replace, 12, obj("x/a", "a1", 11), obj("x/b", "b1", 12))
			b.saw(record.Add, 0, obj("x/b", "b1", 12))
			b.saw(record.Apply, 13, deleted("x/b", "b1"))
			b.saw(record.Delete, 0, obj("x/b", "b1", 12))
		}, ""},
		"a whole view lacks an object":        {whole, func(b bench) { b.saw(record.Replace, 12, obj("x/a", "a1", 11)) }, "x/b is"},
		"a whole view holds a deleted object": {whole, func(b bench) { b.saw(record.Replace, 14, obj("x/a", "a1", 11), obj("x/b", "b1", 13)) }, "not there"},
		"a whole view holds an old state":     {whole, func(b bench) { b.saw(record.Replace, 11, obj("x/a", "a1", 10)) }, "x/a is"},
		"a whole view holds another uid":      {whole, func(b bench) { b.saw(record.Replace, 11, obj("x/a", "a9", 11)) }, "x/a is"},
		"a revision that etcd never had": {whole, func(b bench) {
			b.saw(record.Replace, 99, obj("x/b", "b1", 13), obj("x/a", "a2", 15))
			b.Record(nil, 15, b.Asking())
		}, "etcd is at 15"},
		"a missing change": {whole, func(b bench) {
			b.saw(record.Replace, 11, obj("x/a", "a1", 11))
			b.saw(record.Apply, 13)
		}, "x/b is"},
		"a missing delete": {whole, func(b bench) {
			b.saw(record.Replace, 13, obj("x/a", "a1", 11), obj("x/b", "b1", 13))
			b.saw(record.Apply, 14)
		}, "x/a is"},
		"a move with its delete missing": {free, func(b bench) {
			b.saw(record.Replace, 12, obj("x/a", "a1", 11), obj("x/b", "b1", 12))
			b.saw(record.Apply, 13)
		}, "x/b is"},
		"an older whole view": {whole, func(b bench) {
			b.saw(record.Replace, 13, obj("x/a", "a1", 11), obj("x/b", "b1", 13))
			b.saw(record.Replace, 11, obj("x/a", "a1", 11))
		}, "it goes back"},
		"the same statement twice": {whole, func(b bench) {
			b.saw(record.Replace, 13, obj("x/a", "a1", 11), obj("x/b", "b1", 13))
			b.saw(record.Apply, 13)
		}, "not above its position"},
		"changes before a whole view": {whole, func(b bench) { b.saw(record.Apply, 13) }, "before there was a whole view"},
		"an add of a known object": {whole, func(b bench) {
			b.saw(record.Add, 0, obj("x/a", "a1", 10))
			b.saw(record.Add, 0, obj("x/a", "a1", 11))
		}, "which it already knows"},
		"an add of an object that was never in the view": {free, func(b bench) { b.saw(record.Add, 0, obj("x/a", "a2", 15)) }, "never held"},
		"an update across uids": {whole, func(b bench) {
			b.saw(record.Add, 0, obj("x/a", "a1", 11))
			b.saw(record.Update, 0, obj("x/a", "a1", 11), obj("x/a", "a2", 15))
		}, "from uid a1 to uid a2"},
		"an update backwards": {whole, func(b bench) {
			b.saw(record.Add, 0, obj("x/a", "a1", 11))
			b.saw(record.Update, 0, obj("x/a", "a1", 11), obj("x/a", "a1", 10))
		}, "goes back"},
		"an update from an unreported state": {whole, func(b bench) {
			b.saw(record.Add, 0, obj("x/b", "b1", 12))
			b.saw(record.Update, 0, obj("x/b", "b1", 13), obj("x/b", "b1", 13))
		}, "while it knows"},
		"an update of an unknown object": {whole, func(b bench) { b.saw(record.Update, 0, obj("x/b", "b1", 12), obj("x/b", "b1", 13)) }, "does not know"},
		"the same add twice with a delete between": {whole, func(b bench) {
			b.saw(record.Add, 0, obj("x/a", "a1", 11))
			b.saw(record.Delete, 0, obj("x/a", "a1", 11))
			b.saw(record.Add, 0, obj("x/a", "a1", 11))
		}, "goes back"},
		"a delete of a live object": {whole, func(b bench) {
			b.saw(record.Add, 0, obj("x/b", "b1", 12))
			b.saw(record.Delete, 0, obj("x/b", "b1", 12))
		}, "never left"},
		"a delete of an unknown object": {whole, func(b bench) { b.saw(record.Delete, 0, obj("x/a", "a1", 11)) }, "does not know"},
		"a delete of another uid": {whole, func(b bench) {
			b.saw(record.Add, 0, obj("x/a", "a1", 11))
			b.saw(record.Delete, 0, obj("x/a", "a2", 15))
		}, "while it knows uid a1"},
		"a line of an unknown informer": {whole, func(b bench) { b.Handle(record.Event{Process: "q", What: record.Add}) }, "before it began"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.view)
			b.story()
			c.report(b)
			b.wants(c.want)
		})
	}
}

// TestMissedDelete checks that a handler that missed a delete differs from etcd from then on.
func TestMissedDelete(t *testing.T) {
	b := newBench(t, informer.View{})
	b.story()
	b.saw(record.Replace, 15, obj("x/a", "a2", 15), obj("x/b", "b1", 13))
	b.saw(record.Add, 0, obj("x/a", "a2", 15))
	if _, count := b.Behind(5); count != 1 {
		t.Error("an informer whose handler saw half of the objects counts as equal")
	}
	b.saw(record.Add, 0, obj("x/b", "b1", 13))
	if names, count := b.Behind(5); count != 0 {
		t.Errorf("got %v behind, want none", names)
	}
	b.etcd(16, "x/b", "", "")
	if _, count := b.Behind(5); count != 1 {
		t.Error("an informer whose handler missed a delete counts as equal")
	}
	b.wants("")
}

// TestWaits checks that a line ahead of etcd's record is checked once the record has caught up.
func TestWaits(t *testing.T) {
	b := newBench(t, informer.View{})
	asked := b.Asking()
	b.saw(record.Replace, 11, obj("x/a", "a1", 11))
	b.Record(nil, 5, asked) // asked before the line arrived
	b.wants("")
	if _, count := b.Behind(5); count != 1 {
		t.Error("an informer with an unchecked line counts as equal")
	}
	b.etcd(10, "x/a", "a1", "~")
	b.etcd(11, "x/a", "a1", "~")
	b.saw(record.Add, 0, obj("x/a", "a1", 11))
	b.wants("")
	if names, count := b.Behind(5); count != 0 {
		t.Errorf("got %v behind, want none", names)
	}
}

// TestLives covers an etcd that is set back, so that revisions are used again.
func TestLives(t *testing.T) {
	restored := func(t *testing.T, raised bool) bench {
		b := newBench(t, informer.View{})
		b.etcd(10, "x/a", "a1", "~")
		b.etcd(11, "x/b", "b1", "~")
		b.etcd(12, "x/a", "a1", "~")
		b.saw(record.Replace, 12, obj("x/a", "a1", 12), obj("x/b", "b1", 11))
		b.saw(record.Add, 0, obj("x/a", "a1", 12))
		b.saw(record.Add, 0, obj("x/b", "b1", 11))
		b.NewLife(raised)
		b.etcd(10, "x/a", "a1", "~")
		return b
	}
	t.Run("back", func(t *testing.T) {
		b := restored(t, false)
		b.saw(record.Replace, 10, obj("x/a", "a1", 10))
		b.saw(record.Update, 0, obj("x/a", "a1", 12), obj("x/a", "a1", 10))
		b.saw(record.Delete, 0, obj("x/b", "b1", 11))
		b.wants("")
		if names, count := b.Behind(5); count != 0 {
			t.Errorf("got %v behind, want none", names)
		}
		b.saw(record.Replace, 12, obj("x/a", "a1", 12), obj("x/b", "b1", 11))
		b.Record(nil, 12, b.Asking())
		b.wants("matches no life")
	})
	t.Run("back, from a state of either life", func(t *testing.T) {
		b := newBench(t, informer.View{})
		b.etcd(10, "x/a", "a1", "~")
		b.Record(nil, 15, b.Asking())
		b.NewLife(false)
		b.etcd(10, "x/a", "a1", "~")
		b.Record(nil, 15, b.Asking())
		b.saw(record.Replace, 14, obj("x/a", "a1", 10))
		b.saw(record.Replace, 12, obj("x/a", "a1", 10))
		b.wants("")
		b.saw(record.Replace, 11, obj("x/a", "a1", 10))
		b.wants("goes back")
	})
	// bound is an etcd that is set back to a revision after a pod was bound, or before.
	bound := func(t *testing.T, began int64) bench {
		b := newBench(t, informer.View{Scope: "n1"})
		b.etcd(10, "x/a", "a1", "~")
		b.etcd(11, "x/a", "a1", "n1")
		b.saw(record.Replace, 11, obj("x/a", "a1", 11))
		b.saw(record.Add, 0, obj("x/a", "a1", 11))
		b.NewLife(false)
		b.Restored(began)
		b.etcd(10, "x/a", "a1", "~")
		b.etcd(11, "x/a", "a1", "n1")
		b.saw(record.Delete, 0, obj("x/a", "a1", 11))
		return b
	}
	t.Run("bound again after the restore", func(t *testing.T) { bound(t, 10).wants("") })
	t.Run("bound before the restore", func(t *testing.T) { bound(t, 11).wants("never left the view") })
	t.Run("changes do not lead to another life", func(t *testing.T) {
		b := restored(t, false)
		b.etcd(13, "x/c", "c1", "~")
		b.saw(record.Apply, 13, obj("x/c", "c1", 13))
		b.wants("matches no life")
	})
	t.Run("an old object stays", func(t *testing.T) {
		b := restored(t, false)
		b.etcd(20, "x/a", "a1", "~")
		b.saw(record.Replace, 20, obj("x/a", "a1", 20), obj("x/b", "b1", 11))
		b.wants("not there")
	})
	t.Run("an older state with raised revisions", func(t *testing.T) {
		b := restored(t, true)
		b.Record(nil, 100, b.Asking())
		b.saw(record.Replace, 100, obj("x/a", "a1", 10))
		b.saw(record.Update, 0, obj("x/a", "a1", 12), obj("x/a", "a1", 10))
		b.saw(record.Delete, 0, obj("x/b", "b1", 11))
		b.wants("")
	})
	t.Run("a message of a raised life", func(t *testing.T) {
		b := restored(t, true)
		b.etcd(101, "x/a", "a1", "~")
		b.saw(record.Apply, 101, obj("x/a", "a1", 101))
		b.wants("x/b is") // which only a view of that one name does not hold
	})
	t.Run("no lower revision with raised revisions", func(t *testing.T) {
		b := restored(t, true)
		b.saw(record.Replace, 10, obj("x/a", "a1", 10))
		b.wants("goes back")
	})
}

func TestEnd(t *testing.T) {
	for name, c := range map[string]struct {
		objects []record.Object
		want    string
	}{
		"equal":           {[]record.Object{{Key: "x/a", UID: "a1", Revision: 10, Hash: 7}}, ""},
		"other content":   {[]record.Object{{Key: "x/a", UID: "a1", Revision: 10, Hash: 8}}, "another content"},
		"other revision":  {[]record.Object{{Key: "x/a", UID: "a1", Revision: 9, Hash: 7}}, "etcd as"},
		"nothing":         {nil, "holds 0 objects, etcd 1"},
		"another object":  {[]record.Object{{Key: "x/z", UID: "a1", Revision: 10, Hash: 7}}, "etcd does not"},
		"an extra object": {[]record.Object{{Key: "x/a", UID: "a1", Revision: 10, Hash: 7}, {Key: "x/z"}}, "holds 2 objects"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, informer.View{})
			b.etcd(10, "x/a", "a1", "~")
			b.End(record.Event{Process: "p", Objects: c.objects}, func(_, key string) (record.Object, bool) {
				return record.Object{Key: key, Hash: 7}, key == "x/a"
			})
			b.wants(c.want)
		})
	}
}
