package feed

import (
	"context"
	"log/slog"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// poisoned is an etcd that holds a value whose decoder panics.
type poisoned struct{ still }

func (poisoned) Scan(_ context.Context, _ *scheme.Kind, _ int64, take func([]store.Record)) error {
	take([]store.Record{{Namespace: "a", Name: "bad", Revision: 7, Raw: []byte("bad")}, {Namespace: "a", Name: "good", Revision: 8, Raw: []byte("good")}})
	return nil
}

func (poisoned) Object(_ *scheme.Kind, record store.Record) (scheme.Object, error) {
	if string(record.Raw) == "bad" {
		panic("bad")
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: record.Namespace, Name: record.Name, UID: "1", ResourceVersion: strconv.FormatInt(record.Revision, 10),
	}}, nil
}

// TestAValueWhoseDecoderPanicsHidesNoOther checks that a value whose decoder panics counts as
// unreadable. Reading etcd anew would meet it again and again.
func TestAValueWhoseDecoderPanicsHidesNoOther(t *testing.T) {
	d := NewStepper(Config{Logger: slog.New(slog.DiscardHandler), History: 20, WindowEvents: 10, WindowBytes: 1 << 10}, poisoned{}, scheme.For[*corev1.Pod](scheme.New()))
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.Apply(store.Update{Revision: 50})
	if shown := d.Feed().CachedIn(fabric.View{}); len(shown) != 1 || shown[0].GetName() != "good" {
		t.Errorf("the feed shows %v", shown)
	}
	if !d.Apply(store.Update{Revision: 60, Records: []store.Record{{Namespace: "a", Name: "good", Revision: 60, Raw: []byte("bad")}}}) {
		t.Error("the feed doubts what it knows")
	}
	if shown := d.Feed().CachedIn(fabric.View{}); len(shown) != 0 {
		t.Errorf("the feed shows %v", shown)
	}
	if !d.Apply(store.Update{Revision: 61, Records: []store.Record{{Namespace: "a", Name: "bad", Revision: 61, Raw: []byte("good")}}}) {
		t.Error("the feed doubts what it knows")
	}
	if shown := d.Feed().CachedIn(fabric.View{}); len(shown) != 1 || shown[0].GetName() != "bad" {
		t.Errorf("the feed shows %v", shown)
	}
}
