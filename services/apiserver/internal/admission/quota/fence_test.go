package quota

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/fence"
)

// TestChargesAreNotFenced: one charge serves all waiters of a quota, so no single waiter's fence
// may decide it, and a charge is given back whichever replica leads by then.
func TestChargesAreNotFenced(t *testing.T) {
	store := newStore(podQuota("q", "2", "0"))
	c := New(func(ctx context.Context, namespace, name string, change func(*corev1.ResourceQuota) (*corev1.ResourceQuota, error)) (*corev1.ResourceQuota, error) {
		if f, ok := fence.From(ctx); ok {
			return nil, fence.Lost(f, nil)
		}
		return store.update(ctx, namespace, name, change)
	})
	ctx := fence.With(t.Context(), fence.Fence{Namespace: "shards", Name: "shard-7", UID: "u", Holder: "one"}, nil)
	undo, err := c.Charge(ctx, []*corev1.ResourceQuota{podQuota("q", "2", "0")}, podItem())
	if err != nil || store.used("q", "pods") != "1" {
		t.Fatalf("got %v, used %s, want 1", err, store.used("q", "pods"))
	}
	undo(ctx)
	if used := store.used("q", "pods"); used != "0" {
		t.Errorf("used %s after giving back, want 0", used)
	}
}
