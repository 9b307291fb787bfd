package quota

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/fence"
)

// A quota is charged for all who wait for it at once, so that no one's fence may decide; and what
// was charged is given back whoever leads by then.
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
		t.Fatalf("%v; %s is used", err, store.used("q", "pods"))
	}
	undo(ctx)
	if used := store.used("q", "pods"); used != "0" {
		t.Errorf("%s is used after it was given back", used)
	}
}
