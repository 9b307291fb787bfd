// Package admission changes and refuses writes, as Kubernetes' built-in admission plugins do, in
// Kubernetes' order and words. A plugin mutates before the object's strategy validates, and
// validates what will be written after that. The quota of a namespace is charged last.
//
// Each plugin is a file; the rules of limit ranges, quotas and pod security are in packages below
// this one.
package admission

import (
	"context"

	"github.com/garboard/garboard/libs/scheme"
)

// Verb is what a request does to its object.
type Verb string

// The verbs that pass admission.
const (
	Create Verb = "create"
	Update Verb = "update"
	Delete Verb = "delete"
)

// Request is one write that asks for admission. The caller is authn.UserFrom of its context.
type Request struct {
	// Verb is the operation.
	Verb Verb
	// Kind is the kind of the resource; Namespace and Name locate the object. Name may be empty on
	// create.
	Kind            *scheme.Kind
	Namespace, Name string
	// Subresource is empty for the object itself. For a subresource, Object is what the client
	// sent: a Binding for "binding", an Eviction for "eviction", the object for "status".
	Subresource string
	// Object is the new object, which a plugin may change when it mutates; nil on delete. Old is
	// the present object, read-only; nil on create, and while a delete mutates.
	Object, Old scheme.Object
	// DryRun reports that nothing will be written, so that a plugin must leave no trace.
	DryRun bool

	// undo reverts what plugins have done outside the object.
	undo []func(ctx context.Context)
}

// Undo reverts what plugins have done elsewhere for this request, such as charging a quota. It must
// only be called if the write certainly did not happen.
func (r *Request) Undo(ctx context.Context) {
	if r == nil {
		return
	}
	for _, undo := range r.undo {
		undo(ctx)
	}
	r.undo = nil
}

// Plugin is one admission plugin. Its errors are apierrors and end the request.
type Plugin struct {
	// Name is Kubernetes' name of the plugin, by which it is enabled and disabled.
	Name string
	// Mutate may change the object, before validation. Validate may only refuse, after validation.
	// Either may be nil.
	Mutate, Validate func(ctx context.Context, req *Request) error
}

// Lookup reads other objects for the plugins. Its results are shared and read-only; its errors are
// apierrors.
type Lookup interface {
	// Get returns an object from the watch cache, or from etcd if the cache doesn't have it.
	Get(ctx context.Context, kind *scheme.Kind, namespace, name string) (scheme.Object, error)
	// Live returns an object from etcd.
	Live(ctx context.Context, kind *scheme.Kind, namespace, name string) (scheme.Object, error)
	// List returns the objects of a namespace, or of all namespaces if it is empty, from the watch
	// cache. LiveList returns them as they are in etcd: it waits for a while until the cache has
	// caught up.
	List(ctx context.Context, kind *scheme.Kind, namespace string) ([]scheme.Object, error)
	LiveList(ctx context.Context, kind *scheme.Kind, namespace string) ([]scheme.Object, error)
	// Update replaces an object by what change returns, in one transaction guarded by its revision.
	// change is called again if another writer was faster.
	Update(ctx context.Context, kind *scheme.Kind, namespace, name string, change func(current scheme.Object) (scheme.Object, error)) (scheme.Object, error)
}

// Chain holds the enabled plugins in Kubernetes' order. Any goroutine may use it.
type Chain struct {
	plugins []Plugin
}

// Mutate runs the plugins that may change req's object, before validation. It stops at the first
// refusal and returns it, an apierror.
func (c *Chain) Mutate(ctx context.Context, req *Request) error {
	for _, p := range c.plugins {
		if p.Mutate == nil {
			continue
		}
		if err := p.Mutate(ctx, req); err != nil {
			return err
		}
	}
	return nil
}

// Validate runs the plugins that check what will be written, after validation. It stops at the
// first refusal and returns it, an apierror. If the write certainly does not happen after all,
// req.Undo must be called.
func (c *Chain) Validate(ctx context.Context, req *Request) error {
	for _, p := range c.plugins {
		if p.Validate == nil {
			continue
		}
		if err := p.Validate(ctx, req); err != nil {
			req.Undo(ctx)
			return err
		}
	}
	return nil
}

// Names returns the enabled plugins in the order in which they run.
func (c *Chain) Names() []string {
	names := make([]string, len(c.plugins))
	for i, p := range c.plugins {
		names[i] = p.Name
	}
	return names
}
