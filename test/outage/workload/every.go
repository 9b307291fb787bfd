package workload

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
)

// listPause is between two attempts to list.
const listPause = 100 * time.Millisecond

// every calls listed with the objects of a list, and then event with each state that they, and others,
// take, until ctx ends. A reflector would not do: after most failures it lists again, and does not see
// what was between. Here that happens only if the revision has become too old.
func every(ctx context.Context, from cache.ListerWatcherWithContext, listed func(objs []any) error,
	event func(watch.EventType, any) error,
) {
	for ctx.Err() == nil {
		if err := follow(ctx, from, listed, event); err != nil && ctx.Err() == nil {
			slog.Info("the census lists again", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(listPause):
		}
	}
}

func follow(ctx context.Context, from cache.ListerWatcherWithContext, listed func(objs []any) error,
	event func(watch.EventType, any) error,
) error {
	list, err := from.ListWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing: %w", err)
	}
	objs, err := meta.ExtractList(list)
	if err != nil {
		return fmt.Errorf("reading a list: %w", err)
	}
	at, err := meta.ListAccessor(list)
	if err != nil {
		return fmt.Errorf("reading a list: %w", err)
	}
	if err := listed(asAny(objs)); err != nil {
		return err
	}
	watcher, err := toolswatch.NewRetryWatcherWithContext(ctx, at.GetResourceVersion(), from)
	if err != nil {
		return fmt.Errorf("watching from revision %s: %w", at.GetResourceVersion(), err)
	}
	defer watcher.Stop()
	for one := range watcher.ResultChan() {
		if one.Type == watch.Error {
			return fmt.Errorf("watching: %v", one.Object)
		}
		if err := event(one.Type, one.Object); err != nil {
			return err
		}
	}
	return nil
}

func asAny(objs []runtime.Object) []any {
	all := make([]any, len(objs))
	for i, obj := range objs {
		all[i] = obj
	}
	return all
}
