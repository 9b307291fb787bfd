package controller

import (
	"context"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
)

// RevisionNow returns a revision at or after everything that was written to a kind before the call. An informer that has
// reached it is as new as etcd was then.
func RevisionNow(ctx context.Context, c client.Interface, kind *scheme.Kind) (int64, error) {
	list := kind.NewList()
	// Only the revision counts. A list without a version is read from etcd.
	err := c.Do(ctx, client.Call{Verb: "list", Kind: kind, Options: &metav1.ListOptions{Limit: 1}}, list)
	if err != nil {
		return 0, fmt.Errorf("asking for the revision of %s: %w", kind.GroupResource(), err)
	}
	about, err := meta.ListAccessor(list)
	if err != nil {
		return 0, fmt.Errorf("reading the revision of %s: %w", kind.GroupResource(), err)
	}
	revision, err := strconv.ParseInt(about.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the revision of %s: %w", kind.GroupResource(), err)
	}
	return revision, nil
}
