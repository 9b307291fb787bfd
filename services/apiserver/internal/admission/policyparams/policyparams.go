// Package policyparams keeps users from reading objects through admission policies: the writer of a policy
// must be able to get all its parameters, and the writer of a binding those that it names. The checks are
// part of the API and cannot be configured, though they run as an admission plugin.
package policyparams

import (
	"context"
	"fmt"
	"slices"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/attributes"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// pluginName is the plugin's name, which is not one of Kubernetes'.
const pluginName = "PolicyParameterAuthorization"

// all stands for every group, version, resource, namespace or name.
const all = "*"

// Config configures the checks; all fields except CatchUp are required.
type Config struct {
	// Table is the set of served kinds.
	Table      *scheme.Table
	Authorizer authz.Authorizer
	// Validating and Mutating read the policy of a binding. Their errors are apierrors.
	Validating func(ctx context.Context, name string) (*registrationv1.ValidatingAdmissionPolicy, error)
	Mutating   func(ctx context.Context, name string) (*registrationv1.MutatingAdmissionPolicy, error)
	// CatchUp waits, for a short time, until Authorizer has everything that etcd has; it may be nil. The plugin
	// refuses no write before that.
	CatchUp func(ctx context.Context) error
}

// Plugin returns the plugin.
func Plugin(cfg Config) admission.Plugin {
	return admission.Plugin{Name: pluginName, Validate: func(ctx context.Context, req *admission.Request) error {
		writer, ok := authn.UserFrom(ctx)
		if !ok || req.Verb == admission.Delete || slices.Contains(writer.Groups, authn.GroupMasters) {
			return nil // A write without a user is the apiserver's own.
		}
		c := &check{Config: cfg, user: writer}
		err := c.run(ctx, req)
		if err != nil && cfg.CatchUp != nil && cfg.CatchUp(ctx) == nil {
			err = c.run(ctx, req)
		}
		if err != nil {
			return apierrors.NewInvalid(req.Kind.GroupKind(), req.Object.GetName(), field.ErrorList{err})
		}
		return nil
	}}
}

// check is the check of one write.
type check struct {
	Config
	user authn.User
}

func (c *check) run(ctx context.Context, req *admission.Request) *field.Error {
	switch obj := req.Object.(type) {
	case *registrationv1.ValidatingAdmissionPolicy:
		if old, ok := req.Old.(*registrationv1.ValidatingAdmissionPolicy); ok && apiequality.Semantic.DeepEqual(old.Spec.ParamKind, obj.Spec.ParamKind) {
			return nil
		}
		return c.policy(ctx, obj.Spec.ParamKind)
	case *registrationv1.MutatingAdmissionPolicy:
		if old, ok := req.Old.(*registrationv1.MutatingAdmissionPolicy); ok && apiequality.Semantic.DeepEqual(old.Spec.ParamKind, obj.Spec.ParamKind) {
			return nil
		}
		return c.policy(ctx, obj.Spec.ParamKind)
	case *registrationv1.ValidatingAdmissionPolicyBinding:
		if old, ok := req.Old.(*registrationv1.ValidatingAdmissionPolicyBinding); ok &&
			apiequality.Semantic.DeepEqual(old.Spec.ParamRef, obj.Spec.ParamRef) && old.Spec.PolicyName == obj.Spec.PolicyName {
			return nil
		}
		return c.binding(ctx, obj.Spec.PolicyName, obj.Spec.ParamRef, func() (*registrationv1.ParamKind, error) {
			policy, err := c.Validating(ctx, obj.Spec.PolicyName)
			if err != nil {
				return nil, err
			}
			return policy.Spec.ParamKind, nil
		})
	case *registrationv1.MutatingAdmissionPolicyBinding:
		if old, ok := req.Old.(*registrationv1.MutatingAdmissionPolicyBinding); ok &&
			apiequality.Semantic.DeepEqual(old.Spec.ParamRef, obj.Spec.ParamRef) && old.Spec.PolicyName == obj.Spec.PolicyName {
			return nil
		}
		return c.binding(ctx, obj.Spec.PolicyName, obj.Spec.ParamRef, func() (*registrationv1.ParamKind, error) {
			policy, err := c.Mutating(ctx, obj.Spec.PolicyName)
			if err != nil {
				return nil, err
			}
			return policy.Spec.ParamKind, nil
		})
	}
	return nil
}

// policy checks that the user may get all objects of a policy's kind of parameters.
func (c *check) policy(ctx context.Context, of *registrationv1.ParamKind) *field.Error {
	if of == nil {
		return nil
	}
	about, _ := c.parameters(of)
	about.Verb, about.Namespace, about.Name = "get", all, all
	at := field.NewPath("spec", "paramKind")
	allowed, err := c.may(ctx, about)
	switch {
	case err != nil:
		return field.Forbidden(at, err.Error())
	case !allowed:
		return field.Forbidden(at, fmt.Sprintf(`user %v must have "get" permission on all objects of the referenced paramKind (kind=%s, apiVersion=%s)`,
			attributes.Info(c.user), of.Kind, of.APIVersion))
	}
	return nil
}

// binding checks that the user may read the parameters that a binding names. If it cannot be known which
// these are, the user must be able to read everything.
func (c *check) binding(ctx context.Context, policy string, ref *registrationv1.ParamRef, kindOf func() (*registrationv1.ParamKind, error)) *field.Error {
	if ref == nil {
		return nil
	}
	about, unknown := authz.Attributes{Group: all, Version: all, Resource: all}, ""
	kind, err := kindOf()
	switch {
	case err != nil:
		unknown = "unable to get policy " + policy
	case kind != nil:
		about, unknown = c.parameters(kind)
	}
	about.Verb, about.Namespace, about.Name = "get", ref.Namespace, ref.Name
	if ref.Name == "" {
		about.Verb = "list"
	}
	at := field.NewPath("spec", "paramRef")
	allowed, err := c.may(ctx, about)
	switch {
	case err != nil:
		return field.Forbidden(at, fmt.Sprintf("failed to authorize request: %v", err))
	case allowed:
		return nil
	case unknown != "":
		return field.Forbidden(at, fmt.Sprintf(`%s to determine minimum required permissions and user %v does not have "%s" permission for all groups, versions and resources`,
			unknown, attributes.Info(c.user), about.Verb))
	}
	return field.Forbidden(at, fmt.Sprintf(`user %v does not have "%s" permission on the object referenced by paramRef`, attributes.Info(c.user), about.Verb))
}

// parameters returns the resource of a kind of parameters, as far as that is known, and why not.
func (c *check) parameters(of *registrationv1.ParamKind) (about authz.Attributes, unknown string) {
	gv, err := schema.ParseGroupVersion(of.APIVersion)
	if err != nil {
		return authz.Attributes{Group: all, Version: all, Resource: all}, fmt.Sprintf("unable to parse paramKind %v", of)
	}
	about = authz.Attributes{Group: gv.Group, Version: gv.Version, Resource: all}
	kind := c.Table.Kind(gv.WithKind(of.Kind))
	if kind == nil {
		return about, fmt.Sprintf("unable to resolve paramKind %v", of)
	}
	about.Resource = kind.Resource
	return about, ""
}

// may reports whether the user has a right.
func (c *check) may(ctx context.Context, about authz.Attributes) (bool, error) {
	decision, _, err := c.Authorizer.Authorize(ctx, c.user, about)
	return decision == authz.Allow, err
}
