// Package admission changes and refuses writes around their validation, as Kubernetes'
// built-in admission plugins do, in Kubernetes' order and words. A plugin mutates before the
// object's strategy validates, and validates what will be written after it; the quota of a
// namespace is charged last.
//
// Each plugin is a file; the rules of limit ranges, quotas and pod security are packages
// below.
package admission

import (
	"context"

	"github.com/garboard/garboard/libs/scheme"
)

// Verb is what a request does to its object.
type Verb string

// The verbs that are admitted.
const (
	Create Verb = "create"
	Update Verb = "update"
	Delete Verb = "delete"
)

// Request is one write that asks to be admitted. Who asks is authn.UserFrom of its context.
type Request struct {
	// Verb is what is done.
	Verb Verb
	// Kind is the kind of the resource, Namespace and Name where it is. Name may be empty on
	// create.
	Kind            *scheme.Kind
	Namespace, Name string
	// Subresource is empty for the object itself. Object is then what the client sent: of
	// "binding" a Binding, of "eviction" an Eviction, of "status" the object.
	Subresource string
	// Object is the new object, which a plugin may change when it mutates; nil on delete. Old
	// is the present one, read-only; nil on create, and while a delete mutates.
	Object, Old scheme.Object
	// DryRun says that nothing will be written, so that a plugin must leave no trace.
	DryRun bool

	// undo takes back what plugins have done outside the object.
	undo []func(ctx context.Context)
}

// Undo takes back what plugins did elsewhere for this request, such as charging a quota, when
// the write was certainly not made.
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
	// Mutate may change the object, before it is validated. Validate may only refuse, after
	// it. Either may be nil.
	Mutate, Validate func(ctx context.Context, req *Request) error
}

// Lookup reads what plugins must know of other objects. Its results are shared and read-only;
// errors are apierrors.
type Lookup interface {
	// Get gives an object as the watch cache has it, and as etcd has it if the cache has none.
	Get(ctx context.Context, kind *scheme.Kind, namespace, name string) (scheme.Object, error)
	// Live gives an object as etcd has it.
	Live(ctx context.Context, kind *scheme.Kind, namespace, name string) (scheme.Object, error)
	// List gives the objects of a namespace, or of all when it is empty, as the watch cache
	// has them; LiveList as etcd has them, which the cache is waited for a while to have.
	List(ctx context.Context, kind *scheme.Kind, namespace string) ([]scheme.Object, error)
	LiveList(ctx context.Context, kind *scheme.Kind, namespace string) ([]scheme.Object, error)
	// Update replaces an object by what change gives, in one transaction guarded by its
	// revision; change is called again when another writer was faster.
	Update(ctx context.Context, kind *scheme.Kind, namespace, name string, change func(current scheme.Object) (scheme.Object, error)) (scheme.Object, error)
}

// Chain is the enabled plugins in Kubernetes' order. It may be used from any goroutine.
type Chain struct {
	plugins []Plugin
}

// Mutate runs the plugins that may change req's object. It comes before validation. The first
// refusal, an apierror, ends it.
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

// Validate runs the plugins that check what will be written. It comes after validation. The
// first refusal, an apierror, ends it. If the write is certainly not made after all, req.Undo
// must be called.
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

// Names are the enabled plugins in the order in which they run.
func (c *Chain) Names() []string {
	names := make([]string, len(c.plugins))
	for i, p := range c.plugins {
		names[i] = p.Name
	}
	return names
}
