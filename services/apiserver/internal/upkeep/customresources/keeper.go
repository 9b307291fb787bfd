package customresources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/custom"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/custom/conversion"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// Config configures a Keeper. All fields but Logger are required.
type Config struct {
	// Catalog is where kinds are installed.
	Catalog *kinds.Catalog
	// Converters convert custom resources between versions.
	Converters *conversion.Converters
	// Registry reads and writes definitions and custom resources.
	Registry *registry.Registry
	// Feeds are the watch caches.
	Feeds *feed.Feeds
	// Logger receives what goes wrong outside requests; slog.Default if nil.
	Logger *slog.Logger
}

// Keeper keeps the catalog of one apiserver, and the status of definitions. Every apiserver has one: each
// has a catalog of its own, and what they write of a definition's status is the same.
type Keeper struct {
	cfg       Config
	kind      *scheme.Kind
	installed map[string]*installation // by the definition's name
	settled   map[types.UID]string     // the version of a definition of which nothing is left to do
	refused   map[types.UID]refusal    // of definitions that could not be installed

	slots      chan struct{} // holds an element for each finalization that runs
	ended      sync.WaitGroup
	mu         sync.Mutex
	finalizing map[types.UID]bool
}

// New returns a keeper. Nothing happens before Run.
func New(cfg Config) *Keeper {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Keeper{
		cfg: cfg, kind: scheme.For[*crd](cfg.Catalog.Table()),
		installed: map[string]*installation{}, settled: map[types.UID]string{}, refused: map[types.UID]refusal{}, finalizing: map[types.UID]bool{}, slots: make(chan struct{}, finalizations),
	}
}

// readyPatience is how long Install waits for custom resources, which a conversion webhook may hold up.
const readyPatience = 10 * time.Second

// retryPause is how long the keeper waits after a failure that nothing else would make good.
const retryPause = time.Second

// Install serves what the definitions that etcd has at present define, and waits a moment until it can be
// read. Run follows them from there.
func (k *Keeper) Install(ctx context.Context) error {
	source := k.cfg.Feeds.Of(k.kind)
	if err := source.WaitFor(ctx, 0); err != nil {
		return err
	}
	k.keep(ctx, definitionsOf(source.CachedIn(fabric.View{})))
	waiting, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	if err := k.cfg.Feeds.Ready(waiting); err != nil && ctx.Err() == nil {
		k.cfg.Logger.WarnContext(ctx, "starting although some custom resources cannot be read yet", "err", err)
	}
	return ctx.Err()
}

// Run follows the definitions until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	defer k.cfg.Converters.Close()
	defer k.ended.Wait()
	for {
		err := k.follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		k.cfg.Logger.InfoContext(ctx, "reading the definitions of custom resources again", "err", err)
		if !backoff.Sleep(ctx, backoff.Around(retryPause)) {
			return nil
		}
	}
}

// follow keeps the catalog in step with the definitions until it can no longer see them.
func (k *Keeper) follow(ctx context.Context) error {
	source := k.cfg.Feeds.Of(k.kind)
	_, watcher, err := source.ReadAndWatch(ctx, fabric.View{}, 0)
	if err != nil {
		return err
	}
	defer watcher.Stop()
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case batch, ok := <-watcher.Events():
			if !ok {
				return fmt.Errorf("the watch ended: %w", watcher.Err())
			}
			if len(batch.Events) == 0 {
				continue
			}
			skip(watcher)
		case <-again.C:
		}
		objects := source.CachedIn(fabric.View{})
		if objects == nil {
			again.Reset(backoff.Around(retryPause))
			continue
		}
		all := definitionsOf(objects)
		if !k.keep(ctx, all) {
			again.Reset(backoff.Around(retryPause))
		}
		for _, c := range all {
			if c.DeletionTimestamp != nil && apihelpers.CRDHasFinalizer(c, apiextensionsv1.CustomResourceCleanupFinalizer) {
				k.begin(ctx, c)
			}
		}
	}
}

// skip discards the batches that are at hand: the cache has what they tell, and looking at all definitions
// for each of many would take long.
func skip(watcher *feed.Watcher) {
	for len(watcher.Events()) > 0 {
		<-watcher.Events()
	}
}

// definitionsOf returns the definitions in the order of their creation: the first to want a name has it.
func definitionsOf(objects []scheme.Object) []*crd {
	var all []*crd
	for _, obj := range objects {
		if one, ok := obj.(*crd); ok {
			all = append(all, one)
		}
	}
	slices.SortStableFunc(all, func(a, b *crd) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return all
}

// together is how many definitions are installed at once. Whatever follows the catalog looks at all kinds
// after each time, so one by one would take long; the first of many should not wait for all.
const together = 32

// judged is a definition with the status that it is to have.
type judged struct {
	seen, next *crd
	changed    bool // The judgement changed the status.
}

// keep brings the catalog and the status of all definitions into step. It reports whether it could.
func (k *Keeper) keep(ctx context.Context, all []*crd) bool {
	k.removeOthers(all) // A definition may have the names of one that is gone.
	done, settled := true, map[types.UID]string{}
	var batch []judged
	for i, one := range all {
		if k.settled[one.UID] == one.ResourceVersion {
			settled[one.UID] = one.ResourceVersion
			continue
		}
		if was, ok := k.refused[one.UID]; ok && was.settled == one.ResourceVersion && hasItsNames(one) && time.Now().Before(was.again) {
			done = false
			continue
		}
		next := one.DeepCopy()
		names, structure, approval := acceptNames(next, all), judgeStructure(next), judgeApproval(next)
		all[i] = next // Whoever comes later sees the names that this one has now.
		if batch = append(batch, judged{one, next, names || structure || approval}); len(batch) == together {
			done = k.serve(ctx, batch, settled) && done
			batch = nil
		}
	}
	done = k.serve(ctx, batch, settled) && done
	k.settled = settled
	there := make(map[types.UID]bool, len(all))
	for _, one := range all {
		there[one.UID] = true
	}
	maps.DeleteFunc(k.refused, func(uid types.UID, _ refusal) bool { return !there[uid] })
	k.cfg.Converters.Keep(all)
	return done
}

// serve installs judged definitions, and writes what changes of their status. It records in settled those of
// which nothing is left to do, and reports whether all could be done.
func (k *Keeper) serve(ctx context.Context, batch []judged, settled map[types.UID]string) bool {
	done, failures := true, k.installAll(ctx, batch)
	for i, one := range batch {
		var established bool
		if err := failures[i]; err != nil {
			done, established = false, unserved(one.next, err)
		} else {
			established = establish(one.next)
		}
		seen := one.seen
		if !one.changed && !established {
			if was, ok := k.refused[seen.UID]; ok {
				was.settled = seen.ResourceVersion
				k.refused[seen.UID] = was
			} else {
				if hasItsNames(seen) { // Otherwise it may get them when others have changed.
					settled[seen.UID] = seen.ResourceVersion
				}
				k.keepShared(seen)
			}
			continue
		}
		if err := k.writeStatus(ctx, seen, one.next); err != nil {
			k.cfg.Logger.WarnContext(ctx, "cannot write the status of a CustomResourceDefinition", "name", seen.Name, "err", err)
			done = false
		}
	}
	return done
}

// establish records that a definition is served, which it is from now on, or why not. It reports whether the
// status changed.
func establish(c *crd) bool {
	if !apihelpers.IsCRDConditionTrue(c, apiextensionsv1.NamesAccepted) || apihelpers.IsCRDConditionTrue(c, apiextensionsv1.Established) ||
		c.DeletionTimestamp != nil {
		return false
	}
	next := condition{
		Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue, Reason: "InitialNamesAccepted",
		Message: "the initial names have been accepted",
	}
	if custom.InvalidAuthority(c) {
		next.Status, next.Reason, next.Message = apiextensionsv1.ConditionFalse, "InvalidCABundle", "The conversion webhook CABundle is invalid"
	}
	if apihelpers.IsCRDConditionEquivalent(&next, apihelpers.FindCRDCondition(c, next.Type)) {
		return false
	}
	setCondition(c, next)
	return true
}

// writeStatus writes the status of a definition that nobody has changed meanwhile. Another apiserver that was
// faster wrote the same.
func (k *Keeper) writeStatus(ctx context.Context, seen, next *crd) error {
	_, err := k.cfg.Registry.Resource(k.kind).Update(ctx, "", seen.Name, func(current scheme.Object) (scheme.Object, error) {
		if current.GetUID() != seen.UID || current.GetResourceVersion() != seen.ResourceVersion {
			return nil, apierrors.NewConflict(k.kind.GroupResource(), seen.Name, errors.New("it has changed"))
		}
		return next, nil
	}, registry.UpdateOptions{Subresource: "status"})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // The change will be seen.
	}
	return err
}
