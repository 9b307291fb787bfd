package garbage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/customkinds"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/scheme/perkind"
)

const (
	// customPatience is how long the collector waits for views of custom resources, which a conversion
	// webhook may hold up, and of other servers' (Kubernetes, initialSyncTimeout).
	customPatience = 30 * time.Second
	// lastWords is how long a follower goes on after its kind has gone, to hear that objects were deleted
	// before it.
	lastWords = 5 * time.Second
)

// collected returns the kinds by which the collector reads what etcd holds.
func collected(kinds []*scheme.Kind) []*scheme.Kind {
	// Events have no owners and no dependents, and are numerous.
	return slices.DeleteFunc(customkinds.Readable(kinds), func(kind *scheme.Kind) bool { return kind.Kind == "Event" && !kind.Custom })
}

// taps is a source whose followers can be tapped until they run: a *tap.Source.
type taps interface {
	Tap(kind *scheme.Kind, view informer.View, sink informer.Sink) (require func(revision int64), tapped bool)
}

// Tap has the graph hear of the kinds with a Go type from the informers that a source feeds, where there is one of a
// whole resource. Follow then follows only the others. Call it once, before Follow and before the informers run.
func (c *Collector) Tap(informers taps) {
	c.tapped = map[*scheme.Kind]bool{}
	for _, kind := range collected(c.deps.Client.Table().Kinds()) {
		if kind.Custom {
			continue // It may go while its informer stays.
		}
		if require, tapped := informers.Tap(kind, informer.View{}, sink{graph: c.graph, kind: kind}); tapped {
			c.graph.begin(kind, require)
			c.tapped[kind] = true
		}
	}
}

// Follow keeps the ownership graph up to date until ctx ends, so that a standby has it ready.
func (c *Collector) Follow(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { c.becomeWhole(ctx); return nil })
	group.Go(func() error {
		return perkind.RunOf(ctx, c.deps.Client.Table(), collected, func(served context.Context, kind *scheme.Kind) error {
			return c.follow(ctx, served, kind, false)
		})
	})
	group.Go(func() error {
		return perkind.Run(ctx, c.aggregated, func(served context.Context, kind *scheme.Kind) error {
			return c.follow(ctx, served, kind, true)
		})
	})
	return group.Wait()
}

// follow follows a kind, of another server if it is remote, until ctx ends or the kind is no longer served.
func (c *Collector) follow(ctx, served context.Context, kind *scheme.Kind, remote bool) error {
	if c.tapped[kind] {
		<-served.Done()
		return nil
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	source := c.source
	if remote {
		source = c.remote
	}
	follower := source.Follower(kind, informer.View{}, sink{graph: c.graph, kind: kind, remote: remote})
	require := follower.Require
	if remote {
		require = func(int64) {} // Its server does not know the revisions of etcd here.
	}
	c.graph.begin(kind, require)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := follower.Run(ctx); err != nil {
			return fmt.Errorf("following %s for the %s: %w", kind.GroupResource(), name, err)
		}
		return nil
	})
	group.Go(func() error {
		defer end()
		select {
		case <-served.Done():
		case <-ctx.Done():
		}
		if errors.Is(context.Cause(served), scheme.ErrRemoved) && !c.succeeded(kind) {
			c.drain(ctx, kind)
		}
		return nil
	})
	err := group.Wait()
	c.graph.end(kind, c.succeeded(kind))
	return err
}

// succeeded reports whether another kind is served in the place of one that has gone, with the same objects.
func (c *Collector) succeeded(kind *scheme.Kind) bool {
	next := c.kind(kind.GroupKind())
	return next != nil && next.GroupResource() == kind.GroupResource()
}

// drain waits until the graph has no object of a kind that has gone, but not for long.
func (c *Collector) drain(ctx context.Context, kind *scheme.Kind) {
	enough := time.NewTimer(lastWords)
	defer enough.Stop()
	for {
		left, moved := c.graph.left(kind)
		if left == 0 {
			return
		}
		select {
		case <-moved:
		case <-enough.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// kind returns the kind by which the collector reads objects of this group and kind; nil if none is known.
func (c *Collector) kind(name schema.GroupKind) *scheme.Kind {
	if kind := c.kinds.Get()[name]; kind != nil {
		return kind
	}
	return c.aggregated.Kind(name)
}

// behind returns the kinds whose view is older than a revision, and a channel that is closed when one of them has
// had its first view. Other servers have revisions of their own, so that a first view is all that theirs need.
func (c *Collector) behind(revision int64) (behind []*scheme.Kind, moved <-chan struct{}) {
	behind, moved = c.graph.behind(collected(c.deps.Client.Table().Kinds()), revision)
	kinds, _ := c.aggregated.Follow()
	remote, _ := c.graph.behind(kinds, 1)
	return append(behind, remote...), moved
}

// becomeWhole waits until the graph has had a view of every kind, of custom and aggregated ones only for a while.
func (c *Collector) becomeWhole(ctx context.Context) {
	for _, known := range []informer.DoneChecker{c.definitions, c.aggregated} {
		select {
		case <-known.Done():
		case <-ctx.Done():
			return
		}
	}
	enough := time.NewTimer(customPatience)
	defer enough.Stop()
	impatient := false
	for {
		missing, moved := c.behind(1)
		if impatient {
			missing = slices.DeleteFunc(missing, isCustom)
		}
		if len(missing) == 0 {
			close(c.graph.whole)
			return
		}
		select {
		case <-moved:
		case <-enough.C:
			impatient = true
			c.deps.Logger.WarnContext(ctx, "collecting garbage without knowing all custom and aggregated resources yet", "missing", len(missing))
		case <-ctx.Done():
			return
		}
	}
}

func isCustom(kind *scheme.Kind) bool { return kind.Custom }

// catchUp reports whether any kind is not yet known as of the revision of an object that is being deleted,
// and asks its follower to catch up. It does not wait long for custom and aggregated kinds.
func (c *Collector) catchUp(ctx context.Context, item node) bool {
	patient := time.Since(item.since) < customPatience
	if patient {
		ctx, cancel := context.WithTimeout(ctx, behindDelay)
		defer cancel()
		if c.definitions.WaitForRevision(ctx, item.revision) != nil {
			return true
		}
	}
	behind, _ := c.behind(item.revision)
	c.graph.require(behind, item.revision)
	if !patient {
		behind = slices.DeleteFunc(behind, isCustom)
	}
	return len(behind) > 0
}

// lostOwner returns the state of an owner whose kind is not served: absent if it was seen to go before its kind.
// Otherwise the item is looked at again when the kind is served.
func (c *Collector) lostOwner(item node, ref metav1.OwnerReference) ownerState {
	if c.graph.isLost(ref, item.namespace) {
		return ownerAbsent
	}
	c.graph.await(item.uid, kindOf(ref))
	if c.kind(kindOf(ref)) != nil {
		c.graph.lookAgain(item.uid) // It was installed meanwhile.
	}
	return ownerUnknown
}

// isGone reports whether an error says that an object does not exist. An apiserver that has not heard of a
// custom kind yet, or no longer serves it, says nothing about its objects.
func isGone(err error, id identity) bool {
	if !apierrors.IsNotFound(err) || !id.kind.Custom {
		return apierrors.IsNotFound(err)
	}
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name == id.name &&
		!apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func kindOf(ref metav1.OwnerReference) schema.GroupKind {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return schema.GroupKind{Group: ref.APIVersion, Kind: ref.Kind} // No group has such a name.
	}
	return schema.GroupKind{Group: gv.Group, Kind: ref.Kind}
}
