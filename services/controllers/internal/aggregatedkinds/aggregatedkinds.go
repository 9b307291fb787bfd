// Package aggregatedkinds knows the kinds that other API servers serve behind this one's: those of the
// APIServices with a Service. Their objects are not in etcd and do not ride the bus. What empties namespaces or
// collects garbage reaches them over HTTP (kubernetes, client-go's discovery).
package aggregatedkinds

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	// every is the time after which all documents are read again: a server says nothing when it begins to
	// serve another resource (Kubernetes' garbage collector, the period of its resync).
	every = 30 * time.Second
	// patience is how long Discover waits for the informer.
	patience = 10 * time.Second
)

type apiService = apiregistrationv1.APIService

// Kinds are the kinds of aggregated APIs.
type Kinds struct {
	client   client.Interface
	logger   *slog.Logger
	informer informer.SharedInformer[*apiService]
	kind     *scheme.Kind
	whole    chan struct{} // closed when each API was asked once

	mu       sync.Mutex
	versions map[schema.GroupVersion][]Resource // what each API said last
	followed []*scheme.Kind
	changed  chan struct{} // closed, and replaced, when followed changes
}

// New returns the kinds and requests the informer of APIServices.
func New(deps controller.Deps) *Kinds {
	return &Kinds{
		client: deps.Client, logger: deps.Logger,
		informer: informer.For[*apiService](deps.Informers), kind: scheme.For[*apiService](deps.Client.Table()),
		whole: make(chan struct{}), versions: map[schema.GroupVersion][]Resource{}, changed: make(chan struct{}),
	}
}

// Name names the kinds in messages about waiting for them.
func (*Kinds) Name() string { return "the kinds of aggregated APIs" }

// Done is closed when each aggregated API was asked for its kinds once.
func (k *Kinds) Done() <-chan struct{} { return k.whole }

// Follow returns the kinds whose objects can be listed, watched and deleted, each by the preferred version of its
// group, and a channel that is closed when there are others. An API that does not answer has the kinds that
// it had last. The slice may not be changed.
func (k *Kinds) Follow() (kinds []*scheme.Kind, changed <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.followed, k.changed
}

// Kind returns the kind of this group and name whose objects can be followed; nil if there is none.
func (k *Kinds) Kind(name schema.GroupKind) *scheme.Kind {
	kinds, _ := k.Follow()
	if i := slices.IndexFunc(kinds, func(kind *scheme.Kind) bool { return kind.GroupKind() == name }); i >= 0 {
		return kinds[i]
	}
	return nil
}

// Run keeps the kinds up to date until ctx ends. It is called once.
func (k *Kinds) Run(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	wake := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	registration, err := k.informer.AddEventHandler(informer.ResourceEventHandlerFuncs[*apiService]{
		AddFunc: func(one *apiService, _ bool) {
			if one.Spec.Service != nil {
				wake()
			}
		},
		UpdateFunc: func(was, one *apiService) {
			// An API that has become available may have other kinds than before.
			if one.Spec.Service != nil || was.Spec.Service != nil {
				wake()
			}
		},
		DeleteFunc: func(informer.DeletedObject[*apiService]) { wake() },
	})
	if err != nil {
		return fmt.Errorf("adding an event handler: %w", err)
	}
	k.run(ctx, changed)
	if err := k.informer.RemoveEventHandler(registration); err != nil {
		return fmt.Errorf("removing an event handler: %w", err)
	}
	return nil
}

func (k *Kinds) run(ctx context.Context, changed <-chan struct{}) {
	select {
	case <-k.informer.HasSyncedChecker().Done():
	case <-ctx.Done():
		return
	}
	again := time.NewTimer(every)
	defer again.Stop()
	for first := true; ; first = false {
		if _, err := k.read(ctx); err != nil && ctx.Err() == nil {
			k.logger.InfoContext(ctx, "some aggregated APIs do not say which kinds they have: what is known of them stays", "err", err)
		}
		if first {
			close(k.whole)
		}
		again.Reset(backoff.Around(every))
		select {
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// Discover asks every aggregated API that there was at the time of the call for its resources. It returns those that
// can be deleted, each by the preferred version of its group. With an error, the APIs that it names are
// missing.
func (k *Kinds) Discover(ctx context.Context) ([]Resource, error) {
	revision, err := controller.RevisionNow(ctx, k.client, k.kind)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := k.informer.WaitForRevision(waiting, revision); err != nil {
		return nil, fmt.Errorf("waiting for the APIServices of revision %d: %w", revision, err)
	}
	return k.read(ctx)
}

// read asks every API, and keeps what they say.
func (k *Kinds) read(ctx context.Context) ([]Resource, error) {
	found, err := k.ask(ctx, k.apis())
	k.mu.Lock()
	defer k.mu.Unlock()
	next := make(map[schema.GroupVersion][]Resource, len(found))
	var preferred []Resource
	for i := range found {
		answer := &found[i]
		before, known := k.versions[answer.version]
		if answer.err != nil {
			if known {
				next[answer.version] = before
			}
			continue
		}
		next[answer.version] = reuse(before, answer.resources)
		preferred = append(preferred, next[answer.version]...)
	}
	k.versions = next
	k.keep(found)
	return k.first(preferred), err
}

// keep makes the kinds that can be followed those that are known now. The caller holds mu.
func (k *Kinds) keep(found []answer) {
	var known []Resource
	for i := range found {
		known = append(known, k.versions[found[i].version]...)
	}
	var kinds []*scheme.Kind
	for _, one := range k.first(known) {
		if one.supports("list", "watch") {
			kinds = append(kinds, one.Kind)
		}
	}
	if !slices.Equal(kinds, k.followed) {
		k.followed = kinds
		close(k.changed)
		k.changed = make(chan struct{})
	}
}

// first returns, of resources in the order of preference, the first of each name that this API server does not
// store itself.
func (k *Kinds) first(resources []Resource) []Resource {
	seen := map[schema.GroupResource]bool{}
	var chosen []Resource
	for _, one := range resources {
		name := one.Kind.GroupResource()
		if seen[name] || k.client.Table().Stored(name) != nil {
			continue
		}
		seen[name] = true
		chosen = append(chosen, one)
	}
	return chosen
}
