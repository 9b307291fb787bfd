// Package garbage deletes objects whose owners are gone. It also carries out deletions that wait
// for dependents (foreground) or release them (orphan), as Kubernetes' garbage collector does
// (kubernetes, pkg/controller/garbagecollector).
//
// It follows every kind of the table itself and keeps only metadata. It acts only on an object that
// it has just read from the API.
package garbage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/control"
)

const (
	name           = "garbage-collector-controller"
	defaultWorkers = 20
	// behindDelay is how long a deleted object waits for kinds whose view is older than its
	// deletion.
	behindDelay = 100 * time.Millisecond
)

// Collector is the garbage collector.
type Collector struct {
	cfg       control.Config
	graph     *graph
	followers map[*scheme.Kind]informer.Follower
	events    *events.Recorder
}

// New returns a collector that follows all kinds through source.
func New(cfg control.Config, source informer.Source) (*Collector, error) {
	c := &Collector{
		cfg: cfg, graph: newGraph(), followers: map[*scheme.Kind]informer.Follower{},
		events: events.New(cfg.Client, name, "").WithLogger(cfg.Logger),
	}
	for _, kind := range cfg.Client.Table().Kinds() {
		// Events have no owners and no dependents, and are numerous.
		if !kind.Stored() || kind.Kind == "Event" {
			continue
		}
		c.graph.followed = append(c.graph.followed, kind)
		c.followers[kind] = source.Follower(kind, informer.View{}, sink{graph: c.graph, kind: kind})
	}
	return c, nil
}

// Follow keeps the ownership graph up to date until ctx ends, so that a standby has it ready.
func (c *Collector) Follow(ctx context.Context) error {
	var runs []func(context.Context) error
	for kind, follower := range c.followers {
		runs = append(runs, func(ctx context.Context) error {
			if err := follower.Run(ctx); err != nil {
				return fmt.Errorf("following %s for the %s: %w", kind.GroupResource(), name, err)
			}
			return nil
		})
	}
	return control.RunAll(ctx, runs...)
}

// Run collects until ctx ends. It may be called again after it has returned. Follow must be
// running.
func (c *Collector) Run(ctx context.Context) error {
	queue := reconcile.New(reconcile.Config[types.UID]{
		Name: name, Workers: c.cfg.WorkersOr(defaultWorkers),
		Reconcile: func(ctx context.Context, uid types.UID) (reconcile.Result, error) {
			return control.Requeue(c.reconcile(ctx, uid))
		},
		WaitFor: func() []informer.DoneChecker { return []informer.DoneChecker{c.graph} },
		Logger:  c.cfg.Logger, Registerer: c.cfg.Registerer,
	})
	c.graph.attach(queue.Enqueue)
	defer c.graph.detach()
	return control.RunAll(ctx, c.events.Run, queue.Run)
}

func (c *Collector) reconcile(ctx context.Context, uid types.UID) (reconcile.Result, error) {
	known, dependents, found := c.graph.find(uid)
	if !found || known.deleting && !known.foreground && !known.orphan {
		return reconcile.Result{}, nil
	}
	if known.deleting {
		// Dependents created just before the deletion must not be missed.
		if c.catchUp(known.revision) {
			return reconcile.Result{RequeueAfter: behindDelay}, nil
		}
		if known, dependents, found = c.graph.find(uid); !found {
			return reconcile.Result{}, nil
		}
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

// catchUp reports whether any kind is not yet known as of revision, and asks its follower to catch
// up.
func (c *Collector) catchUp(revision int64) bool {
	behind := c.graph.behind(revision)
	for _, kind := range behind {
		c.followers[kind].Require(revision)
	}
	return len(behind) > 0
}

// read reads an object from the API; nil if it is gone, or another has taken its name.
func (c *Collector) read(ctx context.Context, id identity) (scheme.Object, error) {
	obj := id.kind.New()
	err := c.cfg.Client.Do(ctx, client.Call{
		Verb: "get", Kind: id.kind, Namespace: id.namespace, Name: id.name, Options: &metav1.GetOptions{},
	}, obj)
	switch {
	case apierrors.IsNotFound(err):
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
	policy := metav1.DeletePropagationBackground
	switch {
	case waiting && len(dependents) > 0:
		if err := c.breakCycle(ctx, item, latest, dependents); err != nil {
			return err
		}
		policy = metav1.DeletePropagationForeground
	case slices.Contains(latest.GetFinalizers(), metav1.FinalizerOrphanDependents):
		policy = metav1.DeletePropagationOrphan
	case slices.Contains(latest.GetFinalizers(), metav1.FinalizerDeleteDependents):
		policy = metav1.DeletePropagationForeground
	}
	return c.delete(ctx, item.identity, latest, policy)
}

type ownerState int

const (
	ownerStays  ownerState = iota // it exists, or its absence cannot be established
	ownerWaits                    // it waits for its dependents to be deleted
	ownerAbsent                   // it does not exist
)

// ownerState reads an owner from the API.
func (c *Collector) ownerState(ctx context.Context, item node, ref metav1.OwnerReference) (ownerState, error) {
	kind := c.ownerKind(ref)
	if kind == nil || kind.Namespaced && item.namespace == "" {
		// The kind is not served, or the owner is in an unknown namespace: its absence cannot be
		// established.
		return ownerStays, nil
	}
	owner := identity{kind: kind, name: ref.Name, uid: ref.UID}
	if kind.Namespaced {
		owner.namespace = item.namespace
	}
	latest, err := c.read(ctx, owner)
	if err != nil {
		return ownerStays, err
	}
	if latest == nil {
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

// ownerKind finds the kind of a reference, in any version of its group.
func (c *Collector) ownerKind(ref metav1.OwnerReference) *scheme.Kind {
	for kind := range c.followers {
		if kind.Kind == ref.Kind && kind.Group == groupOf(ref) {
			return kind
		}
	}
	return nil
}

func groupOf(ref metav1.OwnerReference) string {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return ref.APIVersion // No group has such a name.
	}
	return gv.Group
}

func describe(ref metav1.OwnerReference) string {
	return fmt.Sprintf("[%s/%s, name: %s, uid: %s]", ref.APIVersion, ref.Kind, ref.Name, ref.UID)
}

// breakCycle keeps objects that wait for each other from waiting for ever: an object whose own
// dependents wait too stops blocking its owner's deletion.
func (c *Collector) breakCycle(ctx context.Context, item node, latest scheme.Object, dependents []node) error {
	if !slices.ContainsFunc(dependents, func(d node) bool { return d.waiting() }) {
		return nil
	}
	var refs []metav1.OwnerReference
	for _, ref := range latest.GetOwnerReferences() {
		if ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion {
			no := false
			ref.BlockOwnerDeletion = &no
			refs = append(refs, ref)
		}
	}
	if len(refs) == 0 {
		return nil
	}
	return c.patch(ctx, item.identity, map[string]any{"uid": item.uid, "ownerReferences": refs})
}

// disown removes references to owners from an object.
func (c *Collector) disown(ctx context.Context, id identity, owners ...types.UID) error {
	if len(owners) == 0 {
		return nil
	}
	refs := make([]map[string]any, len(owners))
	for i, uid := range owners {
		refs[i] = map[string]any{"$patch": "delete", "uid": uid}
	}
	return c.patch(ctx, id, map[string]any{"uid": id.uid, "ownerReferences": refs})
}

// patch changes metadata of the object with this UID. A missing object is not an error.
func (c *Collector) patch(ctx context.Context, id identity, metadata map[string]any) error {
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encoding a patch of %s %s/%s: %w", id.kind.Kind, id.namespace, id.name, err)
	}
	err = c.cfg.Client.Do(ctx, client.Call{
		Verb: "patch", Kind: id.kind, Namespace: id.namespace, Name: id.name,
		PatchType: types.StrategicMergePatchType, Patch: data, Options: &metav1.PatchOptions{},
	}, nil)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("patching the metadata of %s %s/%s: %w", id.kind.Kind, id.namespace, id.name, err)
	}
	return nil
}

func (c *Collector) removeFinalizer(ctx context.Context, id identity, latest scheme.Object, finalizer string) error {
	left := slices.DeleteFunc(slices.Clone(latest.GetFinalizers()), func(f string) bool { return f == finalizer })
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": id.uid, "resourceVersion": latest.GetResourceVersion(), "finalizers": left,
	}})
	if err != nil {
		return fmt.Errorf("encoding the finalizers of %s %s/%s: %w", id.kind.Kind, id.namespace, id.name, err)
	}
	err = c.cfg.Client.Do(ctx, client.Call{
		Verb: "patch", Kind: id.kind, Namespace: id.namespace, Name: id.name,
		PatchType: types.MergePatchType, Patch: data, Options: &metav1.PatchOptions{},
	}, nil)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing the finalizer %s from %s %s/%s: %w", finalizer, id.kind.Kind, id.namespace, id.name, err)
	}
	return nil
}

func (c *Collector) delete(ctx context.Context, id identity, latest scheme.Object, policy metav1.DeletionPropagation) error {
	version := latest.GetResourceVersion()
	c.cfg.Logger.Debug("deleting an object without owners", "kind", id.kind.Kind, "namespace", id.namespace, "name", id.name, "propagation", policy)
	err := c.cfg.Client.Do(ctx, client.Call{
		Verb: "delete", Kind: id.kind, Namespace: id.namespace, Name: id.name,
		Options: &metav1.DeleteOptions{
			PropagationPolicy: &policy,
			// Delete exactly what was read: a reference added since would be overlooked.
			Preconditions: &metav1.Preconditions{UID: &id.uid, ResourceVersion: &version},
		},
	}, nil)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s %s/%s: %w", id.kind.Kind, id.namespace, id.name, err)
	}
	return nil
}
