package feed

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// nodes is an etcd whose values are the names of the nodes of pods; "bad" cannot be read.
type nodes struct{ still }

func (nodes) Object(_ *scheme.Kind, record store.Record) (scheme.Object, error) {
	if string(record.Raw) == "bad" {
		return nil, errors.New("bad")
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: record.Namespace, Name: record.Name, UID: "1", ResourceVersion: strconv.FormatInt(record.Revision, 10),
		},
		Spec: corev1.PodSpec{NodeName: string(record.Raw)},
	}, nil
}

// at is a put of a pod, or its deletion if node is "-".
func at(revision int64, namespace, name, node string) store.Update {
	record := store.Record{Namespace: namespace, Name: name, Revision: revision, Raw: []byte(node)}
	if node == "-" {
		record.Deleted, record.Raw = true, nil
	}
	return store.Update{Revision: revision, Records: []store.Record{record}}
}

// fed returns a feed that begins at revision 30, is at 50 or later, and waits for nothing.
func fed(t *testing.T, updates ...store.Update) (*Stepper, *Feed) {
	t.Helper()
	d := NewStepper(Config{Logger: slog.New(slog.DiscardHandler), History: 20, WindowEvents: 10, WindowBytes: 1 << 10}, nodes{}, scheme.For[*corev1.Pod](scheme.New()))
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, update := range append([]store.Update{{Revision: 50}}, updates...) {
		if !d.Apply(update) {
			t.Fatalf("the feed doubts what it knows after revision %d", update.Revision)
		}
	}
	return d, d.Feed()
}

func names[T any](items []T, object func(T) scheme.Object) string {
	var all []string
	for _, i := range items {
		all = append(all, object(i).GetNamespace()+"/"+object(i).GetName())
	}
	return strings.Join(all, " ")
}

// TestReadsOfThePast checks when the feed knows what a view held at a revision: as long as nothing
// near the view has changed since.
func TestReadsOfThePast(t *testing.T) {
	d, f := fed(t, at(60, "x", "b", "n1"), at(61, "x", "a", "n2"), at(70, "y", "c", "n1"))
	for _, tt := range []struct {
		view     fabric.View
		revision int64
		want     string // "none" if the feed does not know
	}{
		{fabric.View{}, 70, "x/a x/b y/c"},
		{fabric.View{}, 69, "none"},
		{fabric.View{Namespace: "x"}, 61, "x/a x/b"},
		{fabric.View{Namespace: "x"}, 65, "x/a x/b"},
		{fabric.View{Namespace: "x"}, 60, "none"},
		{fabric.View{Namespace: "x", Name: "b"}, 61, "x/b"},
		{fabric.View{Scope: "n2"}, 61, "x/a"},
		{fabric.View{Scope: "n1"}, 69, "none"},
		{fabric.View{Namespace: "z"}, 30, ""},
		{fabric.View{Namespace: "z"}, 29, "none"}, // before the window
		{fabric.View{Namespace: "z"}, 71, "none"}, // not known yet
	} {
		reading, known := f.ReadAt(tt.view, tt.revision)
		statement, unchanged := f.Unchanged(tt.view, tt.revision)
		read := names(reading.Items, func(i Item) scheme.Object { return i.Object })
		stated := names(statement.Changes, func(e Entry) scheme.Object { return e.Object })
		if !known {
			read = "none"
		}
		if !unchanged {
			stated = "none"
		}
		if read != tt.want || stated != tt.want {
			t.Errorf("%+v at %d: read %q, unchanged %q, want %q", tt.view, tt.revision, read, stated, tt.want)
		}
		if known && (reading.Revision != tt.revision || reading.History != f.History()) {
			t.Errorf("%+v at %d: a reading of %d in %v", tt.view, tt.revision, reading.Revision, reading.History)
		}
		if unchanged && (!statement.Whole || statement.Revision != 70 || statement.Prev != fabric.Always) {
			t.Errorf("%+v at %d: the statement is %+v", tt.view, tt.revision, statement)
		}
	}
	if whole, ok := f.Whole(fabric.View{Namespace: "x"}); !ok || names(whole.Changes, func(e Entry) scheme.Object { return e.Object }) != "x/a x/b" || whole.Changes[1].Revision != 60 {
		t.Errorf("the whole view is %+v", whole)
	}
	d.Forget()
	_, known := f.ReadAt(fabric.View{}, 70)
	_, unchanged := f.Unchanged(fabric.View{}, 70)
	if _, whole := f.Whole(fabric.View{}); known || unchanged || whole {
		t.Errorf("a feed that cannot be read answers: %v, %v, %v", known, unchanged, whole)
	}
}

// TestVersions checks that a reader that keeps a result reads again exactly when its view may have
// changed, and keeps the result while the feed cannot be read.
func TestVersions(t *testing.T) {
	d, f := fed(t, at(60, "x", "a", ""))
	view := fabric.View{Namespace: "x"}
	var have Version
	read := func(when, want string) {
		t.Helper()
		objects, now, changed := f.CachedSince(view, have)
		got := "unchanged"
		if changed {
			got = names(objects, func(o scheme.Object) scheme.Object { return o })
		}
		if got != want || !changed && now != have {
			t.Errorf("%s: %s at %+v, had %+v; want %s", when, got, now, have, want)
		}
		have = now
	}
	read("at first", "x/a")
	read("at once again", "unchanged")
	d.Apply(at(61, "y", "b", ""))
	read("after a change elsewhere", "unchanged")
	d.Apply(at(62, "x", "a", "-"))
	read("after a deletion", "")
	d.Forget()
	read("while the feed cannot be read", "unchanged")
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	read("before the feed has reached the present", "unchanged")
	d.Apply(at(62, "x", "c", ""))
	read("after the feed was read anew", "x/c")
}

func TestGet(t *testing.T) {
	d, f := fed(t, at(60, "x", "a", ""), at(61, "x", "b", "bad"))
	if obj, err := f.Get(t.Context(), "x", "a", 61); err != nil || obj.GetResourceVersion() != "60" {
		t.Errorf("an object: %v, %v", obj, err)
	}
	if obj, err := f.Get(t.Context(), "x", "c", 61); obj != nil || err != nil {
		t.Errorf("no object: %v, %v", obj, err)
	}
	if obj, err := f.Get(t.Context(), "x", "b", 61); obj != nil || !errors.Is(err, ErrUnreadable) {
		t.Errorf("an unreadable object: %v, %v", obj, err)
	}
	if reading, err := f.Read(t.Context(), fabric.View{Namespace: "x"}, 61); err != nil || !slices.Equal(reading.Unreadable, []string{"x/b"}) {
		t.Errorf("reading the namespace: %+v, %v", reading, err)
	}
	if reading, err := f.Read(t.Context(), fabric.View{Namespace: "y"}, 61); err != nil || reading.Unreadable != nil {
		t.Errorf("reading another namespace: %+v, %v", reading, err)
	}
	d.Apply(at(62, "x", "b", "-"))
	if obj, err := f.Get(t.Context(), "x", "b", 62); obj != nil || err != nil {
		t.Errorf("an unreadable object that was deleted: %v, %v", obj, err)
	}
}

// TestReadsThatCannotBeAnswered checks Kubernetes' errors of reads from a watch cache.
func TestReadsThatCannotBeAnswered(t *testing.T) {
	d, f := fed(t, at(60, "x", "a", ""))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	reads := map[string]func(ctx context.Context, minimum int64) error{
		"Get": func(ctx context.Context, minimum int64) error { _, err := f.Get(ctx, "x", "a", minimum); return err },
		"Snapshot": func(ctx context.Context, minimum int64) error {
			_, _, err := f.Snapshot(ctx, fabric.View{}, minimum)
			return err
		},
		"ReadAndWatch": func(ctx context.Context, minimum int64) error {
			_, _, err := f.ReadAndWatch(ctx, fabric.View{}, minimum)
			return err
		},
	}
	for name, read := range reads {
		err := read(t.Context(), 61)
		if !apierrors.IsTimeout(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) || err.Error() != "Timeout: Too large resource version: 61, current: 60" {
			t.Errorf("%s of the future: %v", name, err)
		}
		if err := read(ended, 61); !errors.Is(err, context.Canceled) {
			t.Errorf("%s of a reader that has gone: %v", name, err)
		}
	}
	if _, err := f.Watch(t.Context(), fabric.View{}, 29); !apierrors.IsResourceExpired(err) || err.Error() != "too old resource version: 29 (30)" {
		t.Errorf("a watch from before the window: %v", err)
	}
	d.Forget()
	reads["Watch"] = func(ctx context.Context, from int64) error { _, err := f.Watch(ctx, fabric.View{}, from); return err }
	for name, read := range reads {
		if err := read(t.Context(), 60); !apierrors.IsTooManyRequests(err) || err.Error() != "storage is (re)initializing" {
			t.Errorf("%s of a feed that cannot be read: %v", name, err)
		}
	}
}

// TestLeft checks what a watcher of a scope receives when an object leaves it: the last state that
// the watcher knows, at the revision of the departure.
func TestLeft(t *testing.T) {
	d, f := fed(t)
	w, err := f.Watch(t.Context(), fabric.View{Scope: "n1"}, 50)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if w.History() != f.History() || w.History().IsZero() {
		t.Errorf("the watch is of %v, the feed of %v", w.History(), f.History())
	}
	for _, update := range []store.Update{at(60, "x", "a", "n1"), at(61, "x", "a", "n2"), at(62, "x", "a", "n1"), at(63, "x", "a", "-")} {
		d.Apply(update)
	}
	var seen []*Event
	for len(seen) < 4 {
		seen = append(seen, (<-w.Events()).Events...)
	}
	if obj, encodings := seen[0].Left(); obj != nil || encodings != nil {
		t.Errorf("a new object has left as %v", obj)
	}
	obj, encodings := seen[1].Left()
	if pod, ok := obj.(*corev1.Pod); !ok || pod.Spec.NodeName != "n1" || pod.ResourceVersion != "61" || encodings == seen[1].Encodings {
		t.Errorf("the object that left is %v", obj)
	}
	if again, same := seen[1].Left(); again != obj || same != encodings {
		t.Error("each watcher gets a copy of the object that left")
	}
	if seen[1].Previous.GetResourceVersion() != "60" {
		t.Errorf("the state before became one of revision %s", seen[1].Previous.GetResourceVersion())
	}
	if obj, encodings := seen[3].Left(); obj.GetResourceVersion() != "63" || encodings != seen[3].Encodings {
		t.Errorf("the deleted object is %v", obj)
	}
}
