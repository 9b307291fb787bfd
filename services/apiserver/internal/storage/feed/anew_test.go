package feed_test

import (
	"testing"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// TestReadAnew checks that a feed that is read anew ends its watches, and has everything again, in the same history.
func TestReadAnew(t *testing.T) {
	t.Parallel()
	p := start(t, etcdtest.Start(t), feed.Config{})
	p.create("x", "a", "")
	seen := p.create("x", "b", "")
	if err := p.pods.WaitFor(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	history, w := p.pods.History(), p.watch(fabric.View{}, seen)
	p.pods.ReadAnew()
	for range w.Events() {
	}
	if w.Err() == nil {
		t.Error("the watch of what may be wrong ended without an error")
	}
	later := p.create("x", "c", "")
	objects, _, err := p.pods.Snapshot(t.Context(), fabric.View{}, later)
	for err != nil && t.Context().Err() == nil { // It is being read anew.
		objects, _, err = p.pods.Snapshot(t.Context(), fabric.View{}, later)
	}
	if len(objects) != 3 {
		t.Errorf("got %d objects, want 3", len(objects))
	}
	if now := p.pods.History(); now != history {
		t.Errorf("the history was %v and is %v", history, now)
	}
}
