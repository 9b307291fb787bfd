package availability

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// retryPause is how long the keeper waits after it lost sight of the APIServices.
const retryPause = time.Second

// APIs are the APIs that other servers serve: a *aggregation.APIs.
type APIs interface {
	// Keep replaces the APIs by those of APIServices.
	Keep(services []*apiregistrationv1.APIService)
	// Check asks servers of the API of an APIService, and returns nil if one answers as it should.
	Check(ctx context.Context, name string) error
	// Describe asks a server of the API of an APIService what it serves.
	Describe(ctx context.Context, name string) error
}

// Config configures a Keeper. All fields but Logger and Registerer are required.
type Config struct {
	APIs     APIs
	Table    *scheme.Table
	Registry *registry.Registry
	Feeds    *feed.Feeds
	// Service returns a Service, and Slices the EndpointSlices of a namespace, as the watch cache has them.
	Service func(ctx context.Context, namespace, name string) (*corev1.Service, error)
	Slices  func(ctx context.Context, namespace string) ([]*discoveryv1.EndpointSlice, error)
	// Logger receives what goes wrong outside requests; slog.Default if nil.
	Logger *slog.Logger
	// Registerer registers the metrics; nil for none.
	Registerer prometheus.Registerer
}

type apiService = apiregistrationv1.APIService

// Keeper follows the APIServices. Every apiserver has one: each has connections of its own, and what they write
// about an APIService is usually the same.
type Keeper struct {
	cfg      Config
	kind     *scheme.Kind
	metrics  *metrics
	checkers map[string]*checker // by the name of the APIService
	ended    sync.WaitGroup
}

// New returns a keeper. Nothing happens before Run.
func New(cfg Config) *Keeper {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Keeper{cfg: cfg, kind: scheme.For[*apiService](cfg.Table), metrics: newMetrics(cfg.Registerer), checkers: map[string]*checker{}}
}

// Run follows the APIServices until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	defer k.ended.Wait()
	for {
		err := k.follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		k.cfg.Logger.InfoContext(ctx, "reading the APIServices again", "err", err)
		if !backoff.Sleep(ctx, backoff.Around(retryPause)) {
			return nil
		}
	}
}

// follow keeps the APIs in step with the APIServices until it can no longer see these.
func (k *Keeper) follow(ctx context.Context) error {
	source := k.cfg.Feeds.Of(k.kind)
	_, watcher, err := source.ReadAndWatch(ctx, fabric.View{}, 0)
	if err != nil {
		return err
	}
	defer watcher.Stop()
	for {
		if objects := source.CachedIn(fabric.View{}); objects != nil {
			k.keep(ctx, objects)
		}
		for seen := false; !seen; {
			select {
			case <-ctx.Done():
				return nil
			case batch, ok := <-watcher.Events():
				if !ok {
					return fmt.Errorf("the watch ended: %w", watcher.Err())
				}
				seen = len(batch.Events) > 0
			}
		}
		for len(watcher.Events()) > 0 { // The cache has what they tell.
			<-watcher.Events()
		}
	}
}

// keep passes requests on to the APIs of objects, and checks these.
func (k *Keeper) keep(ctx context.Context, objects []scheme.Object) {
	var all []*apiService
	for _, obj := range objects {
		if one, ok := obj.(*apiService); ok {
			all = append(all, one)
		}
	}
	k.cfg.APIs.Keep(all)
	remote := map[string]bool{}
	for _, one := range all {
		switch {
		case one.Spec.Service != nil:
			remote[one.Name] = true
			k.check(ctx, one)
		case !isLocal(one):
			if err := k.write(ctx, one, helper.NewLocalAvailableAPIServiceCondition()); err != nil && ctx.Err() == nil {
				k.cfg.Logger.WarnContext(ctx, "cannot write the status of an APIService", "name", one.Name, "err", err)
			}
		}
	}
	for name, one := range k.checkers {
		if !remote[name] {
			one.end()
			delete(k.checkers, name)
		}
	}
}

// same reports whether what is known of an APIService also goes for another version of it.
func same(a, b *apiService) bool {
	return a.UID == b.UID && apiequality.Semantic.DeepEqual(a.Spec, b.Spec)
}

// says reports whether an APIService has a condition already, but perhaps with another message.
func says(one *apiService, next apiregistrationv1.APIServiceCondition) bool {
	was := helper.GetAPIServiceConditionByType(one, next.Type)
	return was != nil && was.Status == next.Status && was.Reason == next.Reason
}

func isLocal(one *apiService) bool {
	condition := helper.GetAPIServiceConditionByType(one, apiregistrationv1.Available)
	return condition != nil && condition.Status == apiregistrationv1.ConditionTrue && condition.Reason == "Local"
}

// check begins to check an APIService, or tells its checker what it is like now.
func (k *Keeper) check(ctx context.Context, one *apiService) {
	known := k.checkers[one.Name]
	if known == nil {
		ctx, cancel := context.WithCancel(ctx)
		known = &checker{Keeper: k, end: cancel, changed: make(chan struct{}, 1)}
		known.current.Store(one)
		k.checkers[one.Name] = known
		k.ended.Go(func() { known.run(ctx) })
		return
	}
	before := known.current.Swap(one)
	if !same(before, one) {
		select {
		case known.changed <- struct{}{}:
		default: // It will see the latest anyway.
		}
	}
}

// write sets the condition Available of an APIService, unless that has been replaced or says the same. As long
// as an API is not available for the same reason, the first message stays: those of several apiservers differ.
func (k *Keeper) write(ctx context.Context, seen *apiService, next apiregistrationv1.APIServiceCondition) error {
	if says(seen, next) {
		return nil // Nearly always; etcd need not be asked.
	}
	_, err := k.cfg.Registry.Resource(k.kind).Update(ctx, "", seen.Name, func(current scheme.Object) (scheme.Object, error) {
		one, ok := current.(*apiService)
		if !ok {
			return nil, fmt.Errorf("found a %T", current)
		}
		if !same(one, seen) || says(one, next) {
			return current, nil
		}
		changed := one.DeepCopy()
		helper.SetAPIServiceCondition(changed, next)
		k.metrics.turned(one, changed)
		return changed, nil
	}, registry.UpdateOptions{Subresource: "status", FieldManager: "kube-apiserver"})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // The change will be seen.
	}
	return err
}
