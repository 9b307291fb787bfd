// Package validatingpolicystatus writes into the status of each ValidatingAdmissionPolicy what is wrong
// with the types in its expressions (kubernetes, pkg/controller/validatingadmissionpolicystatus). A
// warning changes nothing about how the policy is enforced.
package validatingpolicystatus

import (
	"context"
	"encoding/json"
	"fmt"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/control"
)

const (
	// name is Kubernetes' name of the queue, and of the writer of the status.
	name           = "validatingadmissionpolicy-status"
	defaultWorkers = 5
)

type policy = *registrationv1.ValidatingAdmissionPolicy

// Definitions are the definitions of custom resources.
type Definitions interface {
	// Refresh returns when the client's table has all kinds that were established before the call.
	Refresh(ctx context.Context) error
}

// Controller is the controller of the status of ValidatingAdmissionPolicies.
type Controller struct {
	cfg         control.Config
	definitions Definitions
	policies    informer.SharedInformer[policy]
}

// New returns the controller and requests its informer.
func New(cfg control.Config, definitions Definitions) (*Controller, error) {
	return &Controller{cfg: cfg, definitions: definitions, policies: informer.For[policy](cfg.Informers)}, nil
}

// Run reconciles until ctx ends. It may be called again after it has returned.
func (c *Controller) Run(ctx context.Context) error {
	var handlers control.Handlers
	queue := reconcile.New(reconcile.Config[string]{
		Name: name, Workers: c.cfg.WorkersOr(defaultWorkers), Resource: "validatingadmissionpolicies",
		Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
			return control.Requeue(reconcile.Result{}, c.reconcile(ctx, key))
		},
		WaitFor: handlers.Checkers, Reads: &handlers.Reads,
		Logger: c.cfg.Logger, Registerer: c.cfg.Registerer, Trace: c.cfg.Trace,
	})
	err := control.Handle(&handlers, c.policies, informer.ResourceEventHandlerFuncs[policy]{
		AddFunc:    func(p policy, _ bool) { queue.Enqueue(p.Name) },
		UpdateFunc: func(_, p policy) { queue.Enqueue(p.Name) },
	})
	if err == nil {
		err = queue.Run(ctx)
	}
	return handlers.Remove(err)
}

// reconcile checks a policy of which there is a new generation.
func (c *Controller) reconcile(ctx context.Context, key string) error {
	p, found := c.policies.Indexer().GetByKey(key)
	if !found || p.Generation <= p.Status.ObservedGeneration {
		return nil
	}
	warnings, err := c.check(ctx, p)
	if err != nil {
		return fmt.Errorf("checking the types of the policy %s: %w", key, err)
	}
	return c.apply(ctx, p, warnings)
}

// apply writes the outcome of a check, unless the policy is deleted.
func (c *Controller) apply(ctx context.Context, p policy, warnings []registrationv1.ExpressionWarning) error {
	kind := scheme.For[policy](c.cfg.Client.Table())
	data, err := json.Marshal(map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind, "metadata": map[string]any{"name": p.Name},
		"status": registrationv1.ValidatingAdmissionPolicyStatus{
			ObservedGeneration: p.Generation, TypeChecking: &registrationv1.TypeChecking{ExpressionWarnings: warnings},
		},
	})
	if err != nil {
		return fmt.Errorf("encoding the status of the policy %s: %w", p.Name, err)
	}
	force := true
	err = c.cfg.Client.Do(ctx, client.Call{
		Verb: "patch", Kind: kind, Name: p.Name, Subresource: "status",
		PatchType: types.ApplyYAMLPatchType, Patch: data, Options: &metav1.PatchOptions{FieldManager: name, Force: &force},
	}, nil)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status of the policy %s: %w", p.Name, err)
	}
	return nil
}
