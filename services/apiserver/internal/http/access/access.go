// Package access decides what users may do, and reads what the decision depends on.
package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/escalation"
	"github.com/garboard/garboard/services/apiserver/internal/admission/policyparams"
	"github.com/garboard/garboard/services/apiserver/internal/admission/resourceclaims"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/node"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/rbac"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/review"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/bootstraproles"
)

const (
	// catchUpTimeout is how long a refusal may wait for the watch cache to receive what might allow
	// the request.
	catchUpTimeout = 3 * time.Second
	// How often, and for how long, writing the bootstrap roles is tried. Kubernetes' values.
	rolesEvery   = time.Second
	rolesTimeout = 30 * time.Second
)

// Access decides what users may do.
type Access struct {
	table *scheme.Table
	store *store.Store
	feeds *feed.Feeds
	roles *rbac.Authorizer
	// authorizer asks in Kubernetes' order: whether the user is a superuser, then the node
	// authorizer, then the roles.
	authorizer authz.Union
	// rolesReady is closed when the bootstrap roles exist.
	rolesReady chan struct{}
}

// New returns what decides by the roles and pods that feeds hold. It starts nothing.
func New(table *scheme.Table, st *store.Store, feeds *feed.Feeds) *Access {
	a := &Access{table: table, store: st, feeds: feeds, rolesReady: make(chan struct{})}
	a.roles = rbac.New(rbac.Caches{
		Roles:               feeds.Of(scheme.For[*rbacv1.Role](table)),
		RoleBindings:        feeds.Of(scheme.For[*rbacv1.RoleBinding](table)),
		ClusterRoles:        feeds.Of(scheme.For[*rbacv1.ClusterRole](table)),
		ClusterRoleBindings: feeds.Of(scheme.For[*rbacv1.ClusterRoleBinding](table)),
	})
	pods := scheme.For[*corev1.Pod](table)
	nodes := node.New(node.Config{
		Pods: feeds.Of(pods), Rules: bootstraproles.NodeRules(),
		Cached: func(kind schema.GroupVersionKind, namespace, name string) (scheme.Object, bool) {
			return feeds.Of(table.Kind(kind)).Cached(namespace, name)
		},
		CatchUp: func(ctx context.Context) error { return a.catchUp(ctx, pods) },
	})
	a.authorizer = authz.Union{authz.Masters{}, nodes, a.roles}
	return a
}

// Authorizer returns the authorizer of all requests.
func (a *Access) Authorizer() authz.Authorizer { return a.authorizer }

// Allow returns an error of the API unless the caller, who is that of ctx, may do what wants says besides
// what its request has been authorized for.
func (a *Access) Allow(ctx context.Context, wants authz.Attributes) error {
	user, _ := authn.UserFrom(ctx)
	decision, reason, err := a.authorizer.Authorize(ctx, user, wants)
	switch {
	case decision == authz.Allow:
		return nil
	case err != nil:
		return apierrors.NewInternalError(err)
	}
	return authz.Forbidden(user, wants, reason)
}

// Roles returns the part of the authorizer that goes by roles.
func (a *Access) Roles() *rbac.Authorizer { return a.roles }

// RolesReady returns a channel that is closed when the bootstrap roles exist.
func (a *Access) RolesReady() <-chan struct{} { return a.rolesReady }

// Answers returns the answers to reviews of what users may do.
func (a *Access) Answers() map[schema.GroupVersionKind]review.Answer {
	return review.Answers(a.authorizer)
}

// catchUp waits until the feeds of kinds have received everything that etcd holds now.
func (a *Access) catchUp(ctx context.Context, kinds ...*scheme.Kind) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	for _, kind := range kinds {
		revision, err := a.store.Of(kind).Revision(ctx)
		if err != nil {
			return err
		}
		if err := a.feeds.Of(kind).WaitFor(ctx, revision); err != nil {
			return err
		}
	}
	return nil
}

// roleKinds returns the kinds that decide about roles.
func (a *Access) roleKinds() []*scheme.Kind {
	return []*scheme.Kind{
		scheme.For[*rbacv1.ClusterRole](a.table), scheme.For[*rbacv1.ClusterRoleBinding](a.table),
		scheme.For[*rbacv1.Role](a.table), scheme.For[*rbacv1.RoleBinding](a.table),
	}
}

// Plugins returns the checks of rights that run as admission plugins.
func (a *Access) Plugins() []admission.Plugin {
	return []admission.Plugin{a.escalation(), a.resourceClaims(), a.policyParams()}
}

// escalation returns the plugin that keeps users from granting rights that they don't have.
func (a *Access) escalation() admission.Plugin {
	return escalation.Plugin(escalation.Config{
		Authorizer: a.authorizer, Holder: a.roles,
		Role: func(ctx context.Context, namespace, name string) (*rbacv1.Role, error) {
			return stored[*rbacv1.Role](ctx, a, namespace, name)
		},
		ClusterRole: func(ctx context.Context, name string) (*rbacv1.ClusterRole, error) {
			return stored[*rbacv1.ClusterRole](ctx, a, "", name)
		},
		CatchUp: func(ctx context.Context) error { return a.catchUp(ctx, a.roleKinds()...) },
	})
}

// policyParams returns the plugin that keeps users from reading objects through policies.
func (a *Access) policyParams() admission.Plugin {
	return policyparams.Plugin(policyparams.Config{
		Table: a.table, Authorizer: a.authorizer,
		Validating: func(ctx context.Context, name string) (*admissionregistrationv1.ValidatingAdmissionPolicy, error) {
			return stored[*admissionregistrationv1.ValidatingAdmissionPolicy](ctx, a, "", name)
		},
		Mutating: func(ctx context.Context, name string) (*admissionregistrationv1.MutatingAdmissionPolicy, error) {
			return stored[*admissionregistrationv1.MutatingAdmissionPolicy](ctx, a, "", name)
		},
		CatchUp: func(ctx context.Context) error { return a.catchUp(ctx, a.roleKinds()...) },
	})
}

// resourceClaims returns the plugin that checks who may use devices as an administrator, and who may write
// which part of a claim's status.
func (a *Access) resourceClaims() admission.Plugin {
	return resourceclaims.Plugin(resourceclaims.Config{
		Authorizer: a.authorizer,
		Namespace: func(ctx context.Context, name string) (*corev1.Namespace, error) {
			return stored[*corev1.Namespace](ctx, a, "", name)
		},
	})
}

// stored reads an object from etcd.
func stored[T scheme.Object](ctx context.Context, a *Access, namespace, name string) (T, error) {
	var none T
	kind := scheme.For[T](a.table)
	obj, err := a.store.Get(ctx, kind, namespace, name)
	if err != nil {
		return none, err
	}
	found, ok := obj.(T)
	if !ok {
		return none, fmt.Errorf("reading %s %s/%s: the store returned a %T", kind.Kind, namespace, name, obj)
	}
	return found, nil
}

// Bootstrap writes the roles that every plane has, and returns when the authorizer uses them.
func (a *Access) Bootstrap(ctx context.Context, to *registry.Registry, log *slog.Logger) error {
	patience, cancel := context.WithTimeout(ctx, rolesTimeout)
	defer cancel()
	ticker := time.NewTicker(rolesEvery)
	defer ticker.Stop()
	for {
		err := bootstraproles.Reconcile(patience, bootstraproles.Config{Table: a.table, Registry: to, Logger: log}, bootstraproles.Default())
		if err == nil {
			err = a.catchUp(patience, a.roleKinds()...)
		}
		if err == nil {
			close(a.rolesReady)
			return nil
		}
		select {
		case <-patience.Done():
			return fmt.Errorf("unable to initialize roles: %w", err)
		case <-ticker.C:
			log.WarnContext(ctx, "writing the bootstrap roles failed; retrying", "err", err)
		}
	}
}

// CheckRoles is the readiness check for the bootstrap roles.
func (a *Access) CheckRoles(context.Context) error {
	select {
	case <-a.rolesReady:
		return nil
	default:
		return errors.New("not finished")
	}
}
