package fabricsource

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

func readerOf(view informer.View) reader {
	table := scheme.New()
	return reader{table: table, kind: scheme.For[*corev1.Pod](table), view: view}
}

func body(t testing.TB, r reader, namespace, name, uid string) []byte {
	t.Helper()
	data, err := r.table.EncodeStorage(r.kind, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// bound returns a message about a pod on node n1.
func bound(t testing.TB, r reader, change func(m *watchv1.Message)) (string, []byte) {
	t.Helper()
	m := &watchv1.Message{
		History: h1.Wire(), Revision: 20, Type: watchv1.Type_TYPE_PUT, Version: "v1", Kind: "Pod", Resource: "pods",
		Namespace: "a", Name: "p", Uid: "u1", Scope: "n1", PrevAll: 19, PrevNamespace: 12, PrevScope: 15,
		Encoding: watchv1.Encoding_ENCODING_KUBERNETES_PROTOBUF, Body: body(t, r, "a", "p", "u1"),
	}
	if change != nil {
		change(m)
	}
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return subject.Watch(m.GetGroup(), m.GetResource(), m.GetScope(), m.GetNamespace(), m.GetName()), data
}

// TestWithoutManagers reads the same object with and without who manages its fields.
func TestWithoutManagers(t *testing.T) {
	r := readerOf(informer.View{})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "p", UID: "u1", Labels: map[string]string{"b": "c"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
	}}
	data, err := r.table.EncodeStorage(r.kind, pod)
	if err != nil {
		t.Fatal(err)
	}
	for bare, managers := range map[bool]int{false: 1, true: 0} {
		r.bare = bare
		e, err := r.message(bound(t, r, func(m *watchv1.Message) { m.Body = data }))
		if err != nil || len(e.Changes) != 1 || e.Changes[0].Object == nil {
			t.Fatalf("bare %t: %+v, %v", bare, e, err)
		}
		got := e.Changes[0].Object
		if len(got.GetManagedFields()) != managers || got.GetLabels()["b"] != "c" || got.GetResourceVersion() != "20" {
			t.Errorf("bare %t: got %+v", bare, got)
		}
	}
}

func TestPrevOfAView(t *testing.T) {
	left := func(m *watchv1.Message) { m.Type = watchv1.Type_TYPE_LEFT }
	for name, tc := range map[string]struct {
		view    informer.View
		change  func(m *watchv1.Message)
		prev    int64
		ignored bool
	}{
		"whole":                       {prev: 19},
		"namespace":                   {view: informer.View{Namespace: "a"}, prev: 12},
		"scope":                       {view: informer.View{Scope: "n1"}, prev: 15},
		"scope in a namespace":        {view: informer.View{Scope: "n1", Namespace: "a"}, prev: 12},
		"name":                        {view: informer.View{Namespace: "a", Name: "p"}, prev: fabric.Always},
		"another namespace":           {view: informer.View{Namespace: "b"}, ignored: true},
		"another scope":               {view: informer.View{Scope: scheme.Unscoped}, ignored: true},
		"another name":                {view: informer.View{Namespace: "a", Name: "q"}, ignored: true},
		"left, whole":                 {change: left, ignored: true},
		"left, namespace":             {view: informer.View{Namespace: "a"}, change: left, ignored: true},
		"left, name":                  {view: informer.View{Namespace: "a", Name: "p"}, change: left, ignored: true},
		"left, scope":                 {view: informer.View{Scope: "n1"}, change: left, prev: 15},
		"left, scope and namespace":   {view: informer.View{Scope: "n1", Namespace: "a"}, change: left, prev: 15},
		"left, another scope":         {view: informer.View{Scope: "n2"}, change: left, ignored: true},
		"gap in the log":              {change: func(m *watchv1.Message) { m.Type = watchv1.Type_TYPE_GAP }, ignored: true},
		"no scope, the unscoped view": {view: informer.View{Scope: scheme.Unscoped}, change: func(m *watchv1.Message) { m.Scope = "" }, prev: 15},
	} {
		t.Run(name, func(t *testing.T) {
			r := readerOf(tc.view)
			subject, data := bound(t, r, tc.change)
			e, err := r.message(subject, data)
			if err != nil {
				t.Fatal(err)
			}
			if e.ignored != tc.ignored || !e.ignored && e.Prev != tc.prev {
				t.Errorf("prev is %d, ignored %v; want %d, %v", e.Prev, e.ignored, tc.prev, tc.ignored)
			}
		})
	}
}

func TestMessageIsRead(t *testing.T) {
	r := readerOf(informer.View{})
	e, err := r.message(bound(t, r, nil))
	if err != nil || e.fault != nil || e.omitted || len(e.Changes) != 1 {
		t.Fatalf("read %+v, %v", e, err)
	}
	c := e.Changes[0]
	if c.Deleted || c.Name != "p" || c.Object.GetResourceVersion() != "20" || c.Object.GetObjectKind().GroupVersionKind().Kind != "Pod" {
		t.Errorf("the change is %+v", c)
	}
	e, err = r.message(bound(t, r, func(m *watchv1.Message) { m.Type, m.Body = watchv1.Type_TYPE_DELETED, nil }))
	if err != nil || e.omitted || !e.Changes[0].Deleted || e.Changes[0].Object != nil {
		t.Errorf("a deletion without a body: %+v, %v", e, err)
	}
}

// TestUnreadableBodyIsOmitted checks that an unreadable body counts as omitted, so that it is asked
// for.
func TestUnreadableBodyIsOmitted(t *testing.T) {
	r := readerOf(informer.View{})
	for name, change := range map[string]func(m *watchv1.Message){
		"omitted":              func(m *watchv1.Message) { m.Omitted, m.Body = true, nil },
		"empty":                func(m *watchv1.Message) { m.Body = nil },
		"garbage":              func(m *watchv1.Message) { m.Body = []byte("k8s\x00garbage") },
		"unknown encoding":     func(m *watchv1.Message) { m.Encoding = 99 },
		"another object's uid": func(m *watchv1.Message) { m.Uid = "u2" },
	} {
		e, err := r.message(bound(t, r, change))
		if err != nil || !e.omitted || len(e.Changes) != 0 || e.Revision != 20 {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

func TestFaultyMessagesAreDiscarded(t *testing.T) {
	r := readerOf(informer.View{})
	for name, change := range map[string]func(m *watchv1.Message){
		"another resource": func(m *watchv1.Message) { m.Resource = "nodes" },
		"another group":    func(m *watchv1.Message) { m.Group = "apps" },
		"no history":       func(m *watchv1.Message) { m.History = nil },
		"no revision":      func(m *watchv1.Message) { m.Revision = 0 },
		"unknown type":     func(m *watchv1.Message) { m.Type = 77 },
		"no type":          func(m *watchv1.Message) { m.Type = 0 },
		"prev not below":   func(m *watchv1.Message) { m.PrevScope = 20 },
		"progress there":   func(m *watchv1.Message) { m.Type = watchv1.Type_TYPE_PROGRESS },
	} {
		if e, err := r.message(bound(t, r, change)); err == nil {
			t.Errorf("%s: read as %+v", name, e)
		}
	}
	_, data := bound(t, r, nil)
	for _, subject := range []string{
		subject.Watch("", "pods", "n1", "a", "q"), subject.Watch("", "pods", "n1", "b", "p"),
		subject.Watch("", "pods", "n2", "a", "p"), subject.Progress("", "pods"), "gb.watch.core.pods",
	} {
		if _, err := r.message(subject, data); err == nil {
			t.Errorf("a message about p was read at %s", subject)
		}
	}
}

func chunkData(t testing.TB, c *watchv1.Chunk) []byte {
	t.Helper()
	data, err := proto.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestImpossibleAnswers(t *testing.T) {
	r := readerOf(informer.View{Namespace: "a"})
	entry := func() *watchv1.Entry {
		return &watchv1.Entry{Revision: 5, Namespace: "a", Name: "p", Uid: "u1", Encoding: watchv1.Encoding_ENCODING_KUBERNETES_PROTOBUF, Body: body(t, r, "a", "p", "u1")}
	}
	whole := func(entries ...*watchv1.Entry) *watchv1.Chunk {
		return &watchv1.Chunk{Outcome: watchv1.Outcome_OUTCOME_WHOLE, History: h1.Wire(), Revision: 9, Entries: entries}
	}
	a, err := r.answer([]*watchv1.Chunk{whole(entry()), whole()})
	if err != nil || a.Prev != fabric.Always || len(a.objects()) != 1 || a.objects()[0].GetResourceVersion() != "5" {
		t.Fatalf("a good answer: %+v, %v", a, err)
	}
	for name, chunks := range map[string][]*watchv1.Chunk{
		"later than itself":    {whole(&watchv1.Entry{Revision: 10, Namespace: "a", Name: "p", Uid: "u1", Encoding: 1, Body: entry().Body})},
		"deleted in a whole":   {whole(&watchv1.Entry{Revision: 5, Deleted: true, Namespace: "a", Name: "p"})},
		"outside of the view":  {whole(&watchv1.Entry{Revision: 5, Namespace: "b", Name: "p", Uid: "u1", Encoding: 1, Body: body(t, r, "b", "p", "u1")})},
		"no history":           {{Outcome: watchv1.Outcome_OUTCOME_WHOLE, Revision: 9}},
		"chunks disagree":      {whole(entry()), {Outcome: watchv1.Outcome_OUTCOME_WHOLE, History: h1.Wire(), Revision: 10}},
		"objects in a refusal": {{Outcome: watchv1.Outcome_OUTCOME_FORBIDDEN, Entries: []*watchv1.Entry{entry()}}},
		"two histories in one": {whole(entry()), {Outcome: watchv1.Outcome_OUTCOME_WHOLE, History: h2.Wire(), Revision: 9}},
		"whole and changes":    {whole(entry()), {Outcome: watchv1.Outcome_OUTCOME_CHANGES, History: h1.Wire(), Revision: 9}},
	} {
		if a, err := r.answer(chunks); err == nil {
			t.Errorf("%s: read as %+v", name, a)
		}
	}
}

// TestUnreadableObjectOfAnAnswer checks that an unreadable object in an answer is there, by its
// metadata, and is reported.
func TestUnreadableObjectOfAnAnswer(t *testing.T) {
	r := readerOf(informer.View{Namespace: "a"})
	good := &watchv1.Entry{Revision: 4, Namespace: "a", Name: "q", Uid: "u2", Encoding: 1, Body: body(t, r, "a", "q", "u2")}
	for name, entry := range map[string]*watchv1.Entry{
		"no body":          {Revision: 5, Namespace: "a", Name: "p", Uid: "u1", Encoding: 1},
		"garbage":          {Revision: 5, Namespace: "a", Name: "p", Uid: "u1", Encoding: 1, Body: []byte("k8s\x00garbage")},
		"unknown encoding": {Revision: 5, Namespace: "a", Name: "p", Uid: "u1", Encoding: 99, Body: body(t, r, "a", "p", "u1")},
		"another's body":   {Revision: 5, Namespace: "a", Name: "p", Uid: "u1", Encoding: 1, Body: good.Body},
	} {
		a, err := r.answer([]*watchv1.Chunk{{Outcome: watchv1.Outcome_OUTCOME_WHOLE, History: h1.Wire(), Revision: 9, Entries: []*watchv1.Entry{good, entry}}})
		if err != nil || a.fault == nil || len(a.objects()) != 2 {
			t.Errorf("%s: %+v, %v", name, a, err)
			continue
		}
		stands, ok := a.objects()[1].(*metav1.PartialObjectMetadata)
		if !ok || stands.Namespace != "a" || stands.Name != "p" || stands.UID != "u1" || stands.ResourceVersion != "5" || stands.Kind != "Pod" {
			t.Errorf("%s: %+v stands for it", name, a.objects()[1])
		}
	}
}

// TestDeletionWithAnUnreadableState checks that a deletion is true even with an unreadable state.
func TestDeletionWithAnUnreadableState(t *testing.T) {
	r := readerOf(informer.View{})
	e, err := r.message(bound(t, r, func(m *watchv1.Message) {
		m.Type, m.Body = watchv1.Type_TYPE_DELETED, []byte("k8s\x00garbage")
	}))
	if err != nil || e.omitted || len(e.Changes) != 1 || !e.Changes[0].Deleted || e.Changes[0].Object != nil {
		t.Errorf("%+v, %v", e, err)
	}
}

func FuzzMessage(f *testing.F) {
	r := readerOf(informer.View{Scope: "n1"})
	subject, data := bound(f, r, nil)
	f.Add(subject, data)
	f.Add("gb.watch.core.pods.~progress", []byte("x"))
	f.Fuzz(func(t *testing.T, subject string, data []byte) {
		e, err := r.message(subject, data)
		if err != nil || e.ignored {
			return
		}
		if !strings.HasPrefix(subject, "gb.watch.core.pods.") || e.Revision <= 0 || !e.progress && e.Prev >= e.Revision {
			t.Fatalf("%q at %s was read as %+v", data, subject, e)
		}
	})
}

func FuzzChunk(f *testing.F) {
	r := readerOf(informer.View{})
	f.Add(chunkData(f, &watchv1.Chunk{Count: 1, Outcome: watchv1.Outcome_OUTCOME_WHOLE, History: h1.Wire(), Revision: 3}))
	f.Fuzz(func(t *testing.T, data []byte) {
		var a fabric.Assembly
		chunks, err := a.Add(data)
		if err != nil || chunks == nil {
			return
		}
		if read, err := r.answer(chunks); err == nil {
			for _, c := range read.Changes {
				if c.Revision > read.Revision || c.Object == nil && !c.Deleted {
					t.Fatalf("read %+v", read)
				}
			}
		}
	})
}
