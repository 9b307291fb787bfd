package webhooks

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/manifests"
	"github.com/garboard/garboard/services/apiserver/internal/http/webhook"
)

// configurations holds the webhooks of one kind of configurations, as files and the watch cache have
// these. Any goroutine may use it.
type configurations[T scheme.Object] struct {
	objects admission.Objects
	// hooksOf returns the webhooks of a configuration.
	hooksOf func(T) []*hook
	clients *webhook.Clients
	metrics *metrics
	// files are the configurations in files; nil for none.
	files *manifests.Manifests

	mu    sync.Mutex
	at    admission.Version // of the configurations
	known map[version][]*hook
	// static are the webhooks of files as of set, and served those of the API.
	set            *manifests.Set
	static, served []*hook
	all            []*hook
}

// version identifies the content of a configuration.
type version struct {
	uid        types.UID
	generation int64
	name       string
}

// hooks returns the webhooks of all configurations, those of files first, sorted by the configurations'
// names. What is compiled stays as long as its configuration does not change.
func (c *configurations[T]) hooks(ctx context.Context) ([]*hook, error) {
	set := c.files.Current(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	found, now, changed, err := admission.ListSince[T](ctx, c.objects, c.at)
	if err != nil || !changed && set == c.set {
		return c.all, err
	}
	if changed {
		slices.SortFunc(found, func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
		known, served := map[version][]*hook{}, []*hook{}
		for _, configuration := range found {
			v := versionOf(configuration)
			hooks, ok := c.known[v]
			if !ok {
				hooks = c.hooksOf(configuration)
			}
			known[v] = hooks
			served = append(served, hooks...)
		}
		c.at, c.known, c.served = now, known, served
	}
	c.load(set)
	return c.all, nil
}

// fromFiles returns the webhooks of files only.
func (c *configurations[T]) fromFiles(ctx context.Context) []*hook {
	set := c.files.Current(ctx)
	if set == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if set != c.set {
		c.load(set)
	}
	return c.static
}

// load takes the webhooks of a set, and forgets the clients and metrics of all that are gone. The caller holds
// mu.
func (c *configurations[T]) load(set *manifests.Set) {
	if set != c.set {
		c.set, c.static = set, nil
		for _, obj := range set.Objects {
			if configuration, ok := obj.(T); ok {
				c.static = append(c.static, c.hooksOf(configuration)...)
			}
		}
	}
	c.all = slices.Concat(c.static, c.served)
	targets, names := make([]webhook.Target, len(c.all)), make(map[string]bool, len(c.all))
	for i, h := range c.all {
		targets[i], names[h.name] = h.target, true
	}
	c.clients.Keep(targets)
	c.metrics.keep(names)
}

func versionOf[T scheme.Object](configuration T) version {
	return version{configuration.GetUID(), configuration.GetGeneration(), configuration.GetName()}
}
