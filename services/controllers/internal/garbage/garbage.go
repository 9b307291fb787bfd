// Package garbage deletes objects whose owners are gone. It also carries out deletions that wait
// for dependents (foreground) or release them (orphan), as Kubernetes' garbage collector does
// (kubernetes, pkg/controller/garbagecollector).
//
// It follows every kind of the table itself, and those of aggregated APIs, and keeps only metadata. It acts only on
// an object that it has just read from the API.
//
// It is not declared by a controller.Spec: its keys are UIDs of objects of all kinds, and what asks for them
// is its own graph, which a replica that does not lead keeps up to date too.
package garbage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/aggregatedkinds"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/customresources"
)

const (
	name    = "garbage-collector-controller"
	workers = 20
	// behindDelay is how long a deleted object waits for kinds whose view is older than its
	// deletion.
	behindDelay = 100 * time.Millisecond
)

// Collector is the garbage collector.
type Collector struct {
	deps        controller.Deps
	definitions *customresources.Definitions
	aggregated  *aggregatedkinds.Kinds
	source      informer.Source
	remote      informer.Source // of aggregated kinds, over HTTP
	// tapped are the kinds of which informers tell the graph. They never go.
	tapped map[*scheme.Kind]bool
	graph  *graph
	events *events.Recorder
	// kinds are those that are collected, by group and kind.
	kinds *scheme.Derived[map[schema.GroupKind]*scheme.Kind]
}

// New returns a collector that follows all kinds through source, custom ones as they are defined, and over HTTP those of
// aggregated APIs.
func New(
	d controller.Deps, definitions *customresources.Definitions, aggregated *aggregatedkinds.Kinds, source informer.Source,
) *Collector {
	return &Collector{
		deps: d, definitions: definitions, aggregated: aggregated,
		source: source, remote: listwatch.New(d.Client, d.Logger), graph: newGraph(), events: d.Events(name),
		kinds: scheme.Derive(d.Client.Table(), func(kinds []*scheme.Kind) map[schema.GroupKind]*scheme.Kind {
			by := map[schema.GroupKind]*scheme.Kind{}
			for _, kind := range collected(kinds) {
				by[kind.GroupKind()] = kind
			}
			return by
		}),
	}
}

// Run collects until ctx ends. It may be called again after it has returned. Follow must be
// running.
func (c *Collector) Run(ctx context.Context) error {
	queue := reconcile.New(reconcile.Config[types.UID]{
		Name: name, Workers: cmp.Or(c.deps.Workers, workers),
		Reconcile: func(ctx context.Context, uid types.UID) (reconcile.Result, error) {
			return controller.Requeue(c.reconcile(ctx, uid))
		},
		WaitFor: func() []informer.DoneChecker { return []informer.DoneChecker{c.definitions, c.graph} },
		Logger:  c.deps.Logger, Registerer: c.deps.Registerer,
	})
	c.graph.attach(queue.Enqueue)
	defer c.graph.detach()
	return controller.RunAll(ctx, c.events.Run, queue.Run)
}

func (c *Collector) reconcile(ctx context.Context, uid types.UID) (reconcile.Result, error) {
	known, dependents, found := c.graph.find(uid)
	if !found || known.deleting && !known.foreground && !known.orphan {
		return reconcile.Result{}, nil
	}
	if known.deleting {
		// Dependents created just before the deletion must not be missed.
		if c.catchUp(ctx, known) {
			return reconcile.Result{RequeueAfter: behindDelay}, nil
		}
		if known, dependents, found = c.graph.find(uid); !found {
			return reconcile.Result{}, nil
		}
	} else if done, err := c.collectKnown(ctx, known); done || err != nil {
		return reconcile.Result{}, err
	}
	latest, err := c.read(ctx, known.identity)
	if err != nil {
		return reconcile.Result{}, err
	}
	if latest == nil {
		c.graph.forget(uid)
		return reconcile.Result{}, nil
	}
	if latest.GetDeletionTimestamp() != nil {
		switch {
		case slices.Contains(latest.GetFinalizers(), metav1.FinalizerOrphanDependents):
			return reconcile.Result{}, c.orphan(ctx, known, latest, dependents)
		case slices.Contains(latest.GetFinalizers(), metav1.FinalizerDeleteDependents):
			return reconcile.Result{}, c.foreground(ctx, known, latest, dependents)
		}
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, c.collect(ctx, known, latest, dependents)
}

// read reads an object from the API; nil if it is gone, or another has taken its name.
func (c *Collector) read(ctx context.Context, id identity) (scheme.Object, error) {
	obj := id.kind.New()
	err := c.deps.Client.Do(ctx, client.Call{
		Verb: "get", Kind: id.kind, Namespace: id.namespace, Name: id.name, Options: &metav1.GetOptions{},
	}, obj)
	switch {
	case isGone(err, id):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s/%s: %w", id.kind.Kind, id.namespace, id.name, err)
	case obj.GetUID() != id.uid:
		return nil, nil
	}
	return obj, nil
}

// orphan releases all dependents, and then removes the finalizer.
func (c *Collector) orphan(ctx context.Context, owner node, latest scheme.Object, dependents []node) error {
	var faults []error
	for _, dependent := range dependents {
		if err := c.disown(ctx, dependent.identity, owner.uid); err != nil {
			faults = append(faults, err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	return c.removeFinalizer(ctx, owner.identity, latest, metav1.FinalizerOrphanDependents)
}

// foreground removes the finalizer once no dependent blocks it, and until then has the blocking
// dependents deleted.
func (c *Collector) foreground(ctx context.Context, owner node, latest scheme.Object, dependents []node) error {
	blocked := false
	for _, dependent := range dependents {
		if !blocks(dependent, owner.uid) {
			continue
		}
		blocked = true
		if !dependent.waiting() {
			c.graph.lookAgain(dependent.uid)
		}
	}
	if blocked {
		return nil // The removal of each dependent triggers another look.
	}
	return c.removeFinalizer(ctx, owner.identity, latest, metav1.FinalizerDeleteDependents)
}

func blocks(dependent node, owner types.UID) bool {
	for _, ref := range dependent.owners {
		if ref.UID == owner && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion {
			return true
		}
	}
	return false
}

// collect deletes an object that has no owner left.
func (c *Collector) collect(ctx context.Context, item node, latest scheme.Object, dependents []node) error {
	refs := latest.GetOwnerReferences()
	if len(refs) == 0 {
		return nil
	}
	var solid, lost []metav1.OwnerReference
	waiting := false
	for _, ref := range refs {
		state, err := c.ownerState(ctx, item, ref)
		if err != nil {
			return err
		}
		switch state {
		case ownerUnknown:
			return nil // As in Kubernetes, nothing is decided before something is known of every owner.
		case ownerStays:
			solid = append(solid, ref)
		case ownerWaits:
			waiting = true
			lost = append(lost, ref)
		case ownerAbsent:
			lost = append(lost, ref)
		}
	}
	if len(solid) > 0 {
		uids := make([]types.UID, len(lost))
		for i, ref := range lost {
			uids[i] = ref.UID
		}
		return c.disown(ctx, item.identity, uids...)
	}
	orphan := slices.Contains(latest.GetFinalizers(), metav1.FinalizerOrphanDependents)
	foreground := slices.Contains(latest.GetFinalizers(), metav1.FinalizerDeleteDependents)
	policy := propagation(orphan, foreground)
	if waiting && len(dependents) > 0 {
		if err := c.breakCycle(ctx, item, latest, dependents); err != nil {
			return err
		}
		policy = metav1.DeletePropagationForeground
	}
	return c.delete(ctx, item.identity, latest.GetResourceVersion(), policy)
}

type ownerState int

const (
	ownerStays   ownerState = iota // it exists
	ownerWaits                     // it waits for its dependents to be deleted
	ownerAbsent                    // it does not exist
	ownerUnknown                   // its absence cannot be established
)

// ownerState reads an owner from the API.
func (c *Collector) ownerState(ctx context.Context, item node, ref metav1.OwnerReference) (ownerState, error) {
	kind := c.kind(kindOf(ref))
	if kind == nil {
		return c.lostOwner(item, ref), nil
	}
	if kind.Namespaced && item.namespace == "" {
		return ownerUnknown, nil // It is in an unknown namespace.
	}
	owner := ownerOf(item, kind, ref)
	latest, err := c.read(ctx, owner)
	if err != nil {
		return ownerStays, err
	}
	if latest == nil {
		c.graph.noteAbsent(owner)
		if c.graph.elsewhere(ref, item.namespace) {
			c.events.EventAbout(&corev1.ObjectReference{
				APIVersion: item.kind.GroupVersion().String(), Kind: item.kind.Kind,
				Namespace: item.namespace, Name: item.name, UID: item.uid,
			}, nil, corev1.EventTypeWarning, "OwnerRefInvalidNamespace", "ownerRef %s does not exist in namespace %q", describe(ref), item.namespace)
		}
		return ownerAbsent, nil
	}
	if latest.GetDeletionTimestamp() != nil && slices.Contains(latest.GetFinalizers(), metav1.FinalizerDeleteDependents) {
		return ownerWaits, nil
	}
	return ownerStays, nil
}

// ownerOf returns the owner that a reference of an item names.
func ownerOf(item node, kind *scheme.Kind, ref metav1.OwnerReference) identity {
	owner := identity{kind: kind, name: ref.Name, uid: ref.UID}
	if kind.Namespaced {
		owner.namespace = item.namespace
	}
	return owner
}

func describe(ref metav1.OwnerReference) string {
	return fmt.Sprintf("[%s/%s, name: %s, uid: %s]", ref.APIVersion, ref.Kind, ref.Name, ref.UID)
}
