// Package admission changes and refuses writes, as Kubernetes' built-in admission plugins do. A
// plugin mutates before the object's strategy validates, and validates what will be written after
// that.
//
// This package declares what a plugin is. Each subject's plugins are in a package below this one,
// and package plugins lists them in order.
package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/scheme"
)

// Verb is what a request does to its object.
type Verb string

// The verbs that pass admission.
const (
	Create Verb = "create"
	Update Verb = "update"
	Delete Verb = "delete"
	// Connect connects a client to something, such as a command in a pod. Only plugins with Connections
	// see it; Object holds the options in the query.
	Connect Verb = "connect"
)

// Request is one write, or connection, that asks for admission. The caller is authn.UserFrom of its context.
type Request struct {
	// Verb is the operation.
	Verb Verb
	// Kind is the kind of the resource; Namespace and Name locate the object. Name may be empty on
	// create.
	Kind            *scheme.Kind
	Namespace, Name string
	// Subresource is empty for the object itself. For a subresource, Object is what the client
	// sent: a Binding for "binding", an Eviction for "eviction", a Scale for "scale", the object for
	// "status".
	Subresource string
	// Object is the new object, which a plugin may change when it mutates; nil on delete. Old is
	// the present object, read-only; nil on create.
	Object, Old scheme.Object
	// DryRun reports that nothing will be written, so that a plugin must leave no trace.
	DryRun bool
	// Options are the options that the client gave, such as *metav1.CreateOptions with its kind set;
	// nil if it gave none.
	Options runtime.Object

	reinvocation reinvocation
	// undo reverts what plugins have done outside the object.
	undo []func(ctx context.Context)
}

// OnUndo has Undo call undo, which reverts what a plugin has done outside the object.
func (r *Request) OnUndo(undo func(ctx context.Context)) { r.undo = append(r.undo, undo) }

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
	// Connections means that the plugin also admits connections.
	Connections bool
	// Close ends what the plugin keeps between requests, such as connections, when the last request has
	// ended; nil if it keeps nothing.
	Close func()
}
