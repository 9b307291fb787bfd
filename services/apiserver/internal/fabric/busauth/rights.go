package busauth

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// reader decides what one user may read from the bus.
type reader struct {
	*Decider
	user authn.User
}

// view is a view of a kind that a client wants to read.
type view struct {
	kind                   *scheme.Kind
	scope, namespace, name string
}

// Authorize checks that an asker may list and watch the view that it asks for. Its error is
// Kubernetes' refusal.
func (d *Decider) Authorize(ctx context.Context, asker subject.Client, ask *watchv1.Ask) error {
	client, err := Client(asker.Identity)
	if err != nil {
		return err
	}
	if err := d.valid(ctx, client); err != nil {
		return err
	}
	user := client.User
	kind := d.cfg.Table.Stored(schema.GroupResource{Group: ask.GetGroup(), Resource: ask.GetResource()})
	if kind == nil {
		return fmt.Errorf("the server could not find the requested resource %q", ask.GetResource())
	}
	reason, err := reader{d, user}.check(ctx, view{kind, ask.GetScope(), ask.GetNamespace(), ask.GetName()})
	note(ctx, err == nil, reason)
	return err
}

// valid checks that the credential with which a client was let in is still valid.
func (d *Decider) valid(ctx context.Context, client authn.Connection) error {
	if err := d.cfg.Authenticator.Revoked(client); err != nil {
		return err
	}
	return d.exists(ctx, client.User)
}

// exists checks that a service account that was let in still exists and is still the same: a token
// is void once its account is gone. Other users are re-checked when they reconnect.
func (d *Decider) exists(ctx context.Context, user authn.User) error {
	account, ok := strings.CutPrefix(user.Name, authn.ServiceAccountUser)
	if !ok || user.UID == "" || d.cfg.Accounts == nil {
		return nil
	}
	namespace, name, _ := strings.Cut(account, ":")
	found, err := d.cfg.Accounts(ctx, namespace, name)
	switch {
	case apierrors.IsNotFound(err), err == nil && string(found.UID) != user.UID:
		return fmt.Errorf("the service account %s/%s has been deleted", namespace, name)
	case err != nil:
		// Nothing says that the account is gone, and the connection ends soon anyway.
		d.cfg.Logger.DebugContext(ctx, "a service account cannot be looked up", "namespace", namespace, "name", name, "err", err)
	}
	return nil
}

// attributes returns the attributes of an HTTP request for a view, with the view's selectors.
func (v view) attributes() authz.Attributes {
	want := authz.Attributes{
		Group: v.kind.Group, Version: v.kind.Version, Resource: v.kind.Resource, Namespace: v.namespace, Name: v.name,
	}
	if v.scope != "" && v.kind.Scope != nil {
		want.Fields = append(want.Fields, fields.Requirement{Field: "spec.nodeName", Operator: selection.Equals, Value: v.nodeName()})
	}
	if v.name != "" {
		want.Fields = append(want.Fields, fields.Requirement{Field: "metadata.name", Operator: selection.Equals, Value: v.name})
	}
	return want
}

// nodeName returns the name of the node whose scope the view is.
func (v view) nodeName() string {
	if v.scope == scheme.Unscoped {
		return ""
	}
	return v.scope
}

// check checks that the user may list and watch a view, as for a request over HTTP. The reason is
// that of the last decision.
func (r reader) check(ctx context.Context, v view) (reason string, err error) {
	want := v.attributes()
	for _, verb := range []string{"list", "watch"} {
		want.Verb = verb
		var decision authz.Decision
		if decision, reason, err = r.cfg.Authorizer.Authorize(ctx, r.user, want); decision == authz.Allow {
			continue
		}
		if err != nil {
			return "internal error", apierrors.NewInternalError(fmt.Errorf("authorizing %s %s: %w", verb, want.Resource, err))
		}
		return reason, authz.Forbidden(r.user, want, reason)
	}
	return reason, nil
}

func (r reader) may(ctx context.Context, v view) bool {
	_, err := r.check(ctx, v)
	return err == nil
}
