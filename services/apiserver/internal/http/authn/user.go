// Package authn finds out who makes a request: by client certificate, by a bearer token from
// a file, by a bootstrap token, or by a service account token that this plane has issued.
package authn

import (
	"context"
	"slices"
)

// Names and groups with a meaning in Kubernetes.
const (
	Anonymous            = "system:anonymous"
	GroupAuthenticated   = "system:authenticated"
	GroupUnauthenticated = "system:unauthenticated"
	GroupMasters         = "system:masters"
	GroupNodes           = "system:nodes"
	GroupServiceAccounts = "system:serviceaccounts"
	// NodePrefix begins the user names of node agents; the node's name follows.
	NodePrefix = "system:node:"
)

// User is who makes a request.
type User struct {
	// Name is unique; it begins with "system:" for parts of the plane.
	Name string
	// UID tells apart users who had one name at different times; may be empty.
	UID string
	// Groups are the user's groups, system:authenticated among them.
	Groups []string
	// Extra is what else the credential says, under keys like
	// "authentication.kubernetes.io/pod-name".
	Extra map[string][]string
}

// Unauthenticated says whether the user is nobody who was found out.
func (u User) Unauthenticated() bool {
	return u.Name == Anonymous || slices.Contains(u.Groups, GroupUnauthenticated)
}

type userKey struct{}

// WithUser gives a context that carries who makes the request.
func WithUser(ctx context.Context, user User) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

// UserFrom gives who makes the request of ctx; false when nobody was found out.
func UserFrom(ctx context.Context) (User, bool) {
	user, ok := ctx.Value(userKey{}).(User)
	return user, ok
}
