// Package ownerreferences is the plugin OwnerReferencesPermissionEnforcement.
package ownerreferences

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// Plugin returns the plugin. It lets a user change an object's owners only with the right to delete
// the object, and block the deletion of an owner only with the right to set finalizers on that
// owner.
func Plugin(table *scheme.Table, authorizer authz.Authorizer) admission.Plugin {
	c := &checker{table: table, authorizer: authorizer}
	return admission.Plugin{Validate: c.check}
}

type checker struct {
	table      *scheme.Table
	authorizer authz.Authorizer
}

func (c *checker) check(ctx context.Context, req *admission.Request) error {
	if req.Verb == admission.Delete || req.Object == nil || !changesOwners(req) {
		return nil
	}
	if req.Kind.Group == "" && req.Kind.Resource == "pods" && req.Subresource == "status" {
		return nil // A status update cannot change owners.
	}
	user, _ := authn.UserFrom(ctx)
	if req.Verb != admission.Create {
		decision, reason, err := c.authorizer.Authorize(ctx, user, authz.Attributes{
			Verb: "delete", Group: req.Kind.Group, Version: req.Kind.Version, Resource: req.Kind.Resource, Subresource: req.Subresource,
			Namespace: req.Namespace, Name: req.Name,
		})
		if decision != authz.Allow {
			return admission.Forbidden(req, fmt.Errorf("cannot set an ownerRef on a resource you can't delete: %v, %w", reason, orNil(err)))
		}
	}
	for _, ref := range newlyBlocking(req) {
		if err := c.mayBlock(ctx, req, user, ref); err != nil {
			return admission.Forbidden(req, err)
		}
	}
	return nil
}

// mayBlock returns why user may not block the deletion of an owner, or nil if the user may.
func (c *checker) mayBlock(ctx context.Context, req *admission.Request, user authn.User, ref metav1.OwnerReference) error {
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	if err == nil && c.table.Kind(version.WithKind(ref.Kind)) == nil {
		err = &meta.NoKindMatchError{GroupKind: version.WithKind(ref.Kind).GroupKind(), SearchedVersions: []string{version.Version}}
	}
	if err != nil {
		return fmt.Errorf("cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion %v Kind %v: %w", ref.APIVersion, ref.Kind, err)
	}
	owner := c.table.Kind(version.WithKind(ref.Kind))
	wanted := authz.Attributes{
		Verb: "update", Group: owner.Group, Version: owner.Version, Resource: owner.Resource, Subresource: "finalizers", Name: ref.Name,
	}
	if owner.Namespaced {
		wanted.Namespace = req.Namespace
	}
	decision, reason, err := c.authorizer.Authorize(ctx, user, wanted)
	if decision == authz.Allow {
		return nil
	}
	return fmt.Errorf("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: %v, %w", reason, orNil(err))
}

// none prints as Kubernetes prints a nil error.
type none struct{}

func (none) Error() string { return "<nil>" }

func orNil(err error) error {
	if err == nil {
		return none{}
	}
	return err
}

func changesOwners(req *admission.Request) bool {
	if req.Old == nil {
		return len(req.Object.GetOwnerReferences()) > 0
	}
	return !equality.Semantic.DeepEqual(req.Old.GetOwnerReferences(), req.Object.GetOwnerReferences())
}

// newlyBlocking returns the owners whose deletion the write newly blocks.
func newlyBlocking(req *admission.Request) []metav1.OwnerReference {
	blocks := func(ref metav1.OwnerReference) bool { return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion }
	var found []metav1.OwnerReference
	for _, ref := range req.Object.GetOwnerReferences() {
		if !blocks(ref) {
			continue
		}
		did := req.Old != nil && slices.ContainsFunc(req.Old.GetOwnerReferences(), func(old metav1.OwnerReference) bool {
			return old.UID == ref.UID && blocks(old)
		})
		if !did {
			found = append(found, ref)
		}
	}
	return found
}
