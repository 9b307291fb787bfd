package webhooks

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/webhook"
)

// configurations holds the webhooks of one kind of configurations, as the watch cache has these.
// Any goroutine may use it.
type configurations[T scheme.Object] struct {
	objects admission.Objects
	// hooksOf returns the webhooks of a configuration.
	hooksOf func(T) []*hook
	clients *webhook.Clients

	mu    sync.Mutex
	at    admission.Version // of the configurations
	known map[version][]*hook
	all   []*hook
}

// version identifies the content of a configuration.
type version struct {
	uid        types.UID
	generation int64
	name       string
}

// hooks returns the webhooks of all configurations, sorted by the configurations' names. What is
// compiled stays as long as its configuration does not change.
func (c *configurations[T]) hooks(ctx context.Context) ([]*hook, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, now, changed, err := admission.ListSince[T](ctx, c.objects, c.at)
	if err != nil || !changed {
		return c.all, err
	}
	slices.SortFunc(found, func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
	known, all, targets := map[version][]*hook{}, []*hook{}, []webhook.Target{}
	for _, configuration := range found {
		v := versionOf(configuration)
		hooks, ok := c.known[v]
		if !ok {
			hooks = c.hooksOf(configuration)
		}
		known[v] = hooks
		all = append(all, hooks...)
	}
	for _, h := range all {
		targets = append(targets, h.target)
	}
	c.at, c.known, c.all = now, known, all
	c.clients.Keep(targets)
	return all, nil
}

func versionOf[T scheme.Object](configuration T) version {
	return version{configuration.GetUID(), configuration.GetGeneration(), configuration.GetName()}
}
