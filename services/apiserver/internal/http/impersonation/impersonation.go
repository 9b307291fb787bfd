// Package impersonation lets a user act as another user. Headers of the request name that other
// user, in whose name the request is then made.
package impersonation

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// Impersonated is the user that a request acts as.
type Impersonated struct {
	User authn.User
	// Constraint is the verb that allowed the impersonation, if it is a verb that is limited to
	// what the request does. It is empty for the plain "impersonate".
	Constraint string
}

// Resolve returns the user that a request acts as and removes the headers that name it. It returns
// false if the request doesn't impersonate. request is what the request wants to do. An error is
// for the client: the user lacks the right, or the headers make no sense.
func Resolve(ctx context.Context, header http.Header, user authn.User, request authz.Attributes, authorizer authz.Authorizer) (Impersonated, bool, error) {
	wanted, ok, err := parse(header)
	if err != nil || !ok {
		return Impersonated{}, false, err
	}
	c := check{authorizer: authorizer, user: user, wanted: wanted}
	for _, m := range modes() {
		if !m.fits(wanted, user) {
			continue
		}
		if acting, err := c.constrained(ctx, m.name, request); err == nil {
			return Impersonated{User: acting, Constraint: "impersonate:" + m.name}, true, nil
		}
	}
	// If no mode allows the request, the client gets the refusal of plain impersonation, since a
	// constrained one is rarely meant.
	acting, err := c.plain(ctx)
	return Impersonated{User: acting}, err == nil, err
}

// parse reads and removes the headers. It returns false if they name no user.
func parse(header http.Header) (authn.User, bool, error) {
	wanted := authn.User{
		Name: header.Get(authenticationv1.ImpersonateUserHeader), UID: header.Get(authenticationv1.ImpersonateUIDHeader),
		Groups: slices.Clone(header[authenticationv1.ImpersonateGroupHeader]),
	}
	extra := false
	for name, values := range header {
		key, ok := strings.CutPrefix(name, authenticationv1.ImpersonateUserExtraHeaderPrefix)
		if !ok {
			continue
		}
		extra = true
		if wanted.Extra == nil {
			wanted.Extra = map[string][]string{}
		}
		key = unescape(strings.ToLower(key))
		wanted.Extra[key] = append(wanted.Extra[key], values...)
	}
	if wanted.Name == "" {
		if wanted.UID != "" || len(wanted.Groups) > 0 || extra {
			return authn.User{}, false, apierrors.NewBadRequest(fmt.Sprintf(
				"requested &user.DefaultInfo{Name:%#v, UID:%#v, Groups:%#v, Extra:%#v} without impersonating a user name",
				wanted.Name, wanted.UID, wanted.Groups, wanted.Extra))
		}
		return authn.User{}, false, nil
	}
	for name := range header {
		switch {
		case name == authenticationv1.ImpersonateUserHeader, name == authenticationv1.ImpersonateUIDHeader,
			name == authenticationv1.ImpersonateGroupHeader, strings.HasPrefix(name, authenticationv1.ImpersonateUserExtraHeaderPrefix):
			header.Del(name)
		}
	}
	return wanted, true, nil
}

// unescape decodes %XX. A malformed key stays as it is, so that it can be refused by its name.
func unescape(key string) string {
	decoded, err := url.PathUnescape(key)
	if err != nil {
		return key
	}
	return decoded
}

// serviceAccount splits the user name of a service account.
func serviceAccount(user string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(user, authn.ServiceAccountUser)
	if !ok {
		return "", "", false
	}
	parts := strings.Split(rest, ":")
	if len(parts) != 2 || len(validation.ValidateNamespaceName(parts[0], false)) > 0 || len(validation.ValidateServiceAccountName(parts[1], false)) > 0 {
		return "", "", false
	}
	return parts[0], parts[1], true
}

// check checks whether user may act as wanted.
type check struct {
	authorizer authz.Authorizer
	user       authn.User
	wanted     authn.User
}

func (c check) may(ctx context.Context, a authz.Attributes) error {
	decision, reason, err := c.authorizer.Authorize(ctx, c.user, a)
	if decision == authz.Allow {
		return nil
	}
	if err != nil {
		reason = strings.TrimSuffix(err.Error()+": "+reason, ": ")
	}
	return authz.Forbidden(c.user, a, reason)
}

// plain is unconstrained impersonation: it needs the right to the name, each group, the UID and
// each extra value.
func (c check) plain(ctx context.Context) (authn.User, error) {
	name := authz.Attributes{Verb: "impersonate", Version: "v1", Resource: "users", Name: c.wanted.Name}
	acting := c.wanted
	if namespace, account, ok := serviceAccount(c.wanted.Name); ok {
		name.Resource, name.Namespace, name.Name = "serviceaccounts", namespace, account
		if len(acting.Groups) == 0 {
			acting.Groups = authn.ServiceAccountGroups(namespace)
		}
	}
	if err := c.may(ctx, name); err != nil {
		return authn.User{}, err
	}
	if err := c.rest(ctx, "impersonate", ""); err != nil {
		return authn.User{}, err
	}
	return grouped(acting), nil
}

// rest checks the rights to the UID, to the groups, which are in the given API group, and to the
// extra values.
func (c check) rest(ctx context.Context, verb, group string) error {
	a := authz.Attributes{Verb: verb, Group: authenticationv1.GroupName, Version: "v1"}
	if c.wanted.UID != "" {
		a.Resource, a.Name = "uids", c.wanted.UID
		if err := c.may(ctx, a); err != nil {
			return err
		}
	}
	for _, wanted := range c.wanted.Groups {
		if err := c.may(ctx, authz.Attributes{Verb: verb, Group: group, Version: "v1", Resource: "groups", Name: wanted}); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.wanted.Extra)) {
		for _, value := range c.wanted.Extra[key] {
			a.Resource, a.Subresource, a.Name = "userextras", key, value
			if err := c.may(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// grouped adds the group of authenticated users, or of unauthenticated users for the anonymous
// user.
func grouped(user authn.User) authn.User {
	group := authn.GroupAuthenticated
	switch {
	case user.Name == authn.Anonymous:
		group = authn.GroupUnauthenticated
	case slices.Contains(user.Groups, authn.GroupUnauthenticated):
		return user
	}
	if !slices.Contains(user.Groups, group) {
		user.Groups = append(slices.Clone(user.Groups), group)
	}
	return user
}
