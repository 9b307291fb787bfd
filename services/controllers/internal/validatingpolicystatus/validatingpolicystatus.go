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
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	// queue is Kubernetes' name of the queue, and of the writer of the status.
	queue   = "validatingadmissionpolicy-status"
	workers = 5
)

type policy = *registrationv1.ValidatingAdmissionPolicy

// Definitions are the definitions of custom resources.
type Definitions interface {
	// Refresh returns when the client's table has all kinds that were established before the call.
	Refresh(ctx context.Context) error
}

// checker reconciles ValidatingAdmissionPolicies.
type checker struct {
	client      client.Interface
	definitions Definitions
	policies    *controller.Objects[policy]
}

// New declares the controller.
func New(d controller.Deps, definitions Definitions) *controller.Spec {
	c := &checker{client: d.Client, definitions: definitions, policies: controller.For[policy](d)}
	return &controller.Spec{
		Name: "validatingadmissionpolicy-status-controller", Queue: queue, Resource: "validatingadmissionpolicies", Workers: workers,
		For: c.policies,
		Reconcile: func(ctx context.Context, key controller.Key) (reconcile.Result, error) {
			return reconcile.Result{}, c.reconcile(ctx, key)
		},
	}
}

// reconcile checks a policy of which there is a new generation.
func (c *checker) reconcile(ctx context.Context, key controller.Key) error {
	p, found := c.policies.Get(key)
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
func (c *checker) apply(ctx context.Context, p policy, warnings []registrationv1.ExpressionWarning) error {
	kind := scheme.For[policy](c.client.Table())
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
	err = c.client.Do(ctx, client.Call{
		Verb: "patch", Kind: kind, Name: p.Name, Subresource: "status",
		PatchType: types.ApplyYAMLPatchType, Patch: data, Options: &metav1.PatchOptions{FieldManager: queue, Force: &force},
	}, nil)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status of the policy %s: %w", p.Name, err)
	}
	return nil
}
