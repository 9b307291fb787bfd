// Package authn authenticates requests by the headers of a front proxy, by client certificate, by a
// bearer token from a file, by a bootstrap token, or by a service account token that this plane has
// issued.
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

// User is the identity behind a request.
type User struct {
	// Name is unique. It begins with "system:" for parts of the plane.
	Name string
	// UID distinguishes users that had the same name at different times. It may be empty.
	UID string
	// Groups are the user's groups, including system:authenticated.
	Groups []string
	// Extra is what else the credential says, under keys such as
	// "authentication.kubernetes.io/pod-name".
	Extra map[string][]string
}

// Unauthenticated reports whether the user was not authenticated.
func (u User) Unauthenticated() bool {
	return u.Name == Anonymous || slices.Contains(u.Groups, GroupUnauthenticated)
}

type userKey struct{}

// WithUser returns a context that carries the user of a request.
func WithUser(ctx context.Context, user User) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

// UserFrom returns the user of the request that ctx belongs to, and false if there is none.
func UserFrom(ctx context.Context) (User, bool) {
	user, ok := ctx.Value(userKey{}).(User)
	return user, ok
}
