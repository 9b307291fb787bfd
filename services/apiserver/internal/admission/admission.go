// Package admission changes and refuses writes before they reach an object's strategy, as
// Kubernetes' built-in admission plugins do: the life cycle of namespaces, the service account
// of a pod and its token volume, default tolerations, the priority of a pod, the first taint
// of a node.
package admission

import (
	"context"

	corev1 "k8s.io/api/core/v1"

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

// Request is one write that asks to be admitted.
type Request struct {
	// Verb is what is done.
	Verb Verb
	// Kind is the kind of the object, Namespace and Name where it is. Name may be empty on
	// create.
	Kind            *scheme.Kind
	Namespace, Name string
	// Subresource is empty for the object itself.
	Subresource string
	// Object is the new object, which a plugin may change; nil on delete. Old is the present
	// one, read-only; nil on create.
	Object, Old scheme.Object
}

// Lookup is what plugins must know of other objects. Its results are read-only; errors are
// apierrors.
type Lookup interface {
	Namespace(ctx context.Context, name string) (*corev1.Namespace, error)
	ServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error)
}

// Chain is the plugins in the order in which Kubernetes runs them.
type Chain struct {
	plugins []plugin
}

type plugin func(ctx context.Context, req *Request) error

// New makes the chain of all plugins.
func New(lookup Lookup) *Chain {
	return &Chain{plugins: []plugin{
		namespaceLifecycle(lookup),
		serviceAccount(lookup),
		taintNewNode,
		priority,
		defaultTolerations,
	}}
}

// Admit runs the plugins on req. The first refusal, an apierror, ends it.
func (c *Chain) Admit(ctx context.Context, req *Request) error {
	for _, p := range c.plugins {
		if err := p(ctx, req); err != nil {
			return err
		}
	}
	return nil
}
