package authz

import (
	"context"
	"slices"
	"strings"

	"github.com/garboard/garboard/services/apiserver/internal/authn"
)

// Fixed holds the rules of the plane's own parts, for as long as roles are not read.
type Fixed struct{}

// Authorize allows what the table says.
func (Fixed) Authorize(_ context.Context, user authn.User, a Attributes) (Decision, string, error) {
	if allowed(user, a) {
		return Allow, "", nil
	}
	return NoOpinion, "", nil
}

func allowed(user authn.User, a Attributes) bool {
	if slices.Contains(user.Groups, authn.GroupMasters) {
		return true
	}
	if a.Path != "" {
		return allowedPath(user, a)
	}
	switch {
	case user.Name == "system:kube-controller-manager":
		return true // Its controllers have roles of their own once there is RBAC.
	case user.Name == "system:kube-scheduler":
		return scheduler(a)
	case slices.Contains(user.Groups, authn.GroupNodes) && strings.HasPrefix(user.Name, authn.NodePrefix):
		return node(a)
	}
	return false
}

// allowedPath holds the rules of Kubernetes' roles system:public-info-viewer and
// system:discovery.
func allowedPath(user authn.User, a Attributes) bool {
	if a.Verb != "get" && a.Verb != "head" {
		return false
	}
	switch a.Path {
	case "/healthz", "/livez", "/readyz", "/version", "/version/":
		return true
	case "/api", "/apis", "/openapi":
		return slices.Contains(user.Groups, authn.GroupAuthenticated)
	}
	for _, prefix := range []string{"/api/", "/apis/", "/openapi/", "/healthz/", "/livez/", "/readyz/"} {
		if strings.HasPrefix(a.Path, prefix) {
			return slices.Contains(user.Groups, authn.GroupAuthenticated)
		}
	}
	return false
}

func reads(verb string) bool { return verb == "get" || verb == "list" || verb == "watch" }

func scheduler(a Attributes) bool {
	switch a.Resource {
	case "pods":
		switch a.Subresource {
		case "":
			return reads(a.Verb) || a.Verb == "delete"
		case "binding":
			return a.Verb == "create"
		case "status":
			return a.Verb == "patch" || a.Verb == "update"
		}
		return false
	case "events":
		return a.Verb == "create" || a.Verb == "patch" || a.Verb == "update"
	case "leases":
		return a.Verb == "create" || a.Verb == "get" || a.Verb == "update"
	case "secrets":
		return false
	}
	return reads(a.Verb) && a.Subresource == ""
}

func node(a Attributes) bool {
	switch a.Resource {
	case "nodes":
		return a.Subresource == "" && (reads(a.Verb) || a.Verb == "create" || a.Verb == "update" || a.Verb == "patch") ||
			a.Subresource == "status" && (a.Verb == "update" || a.Verb == "patch")
	case "pods":
		return a.Subresource == "" && (reads(a.Verb) || a.Verb == "create" || a.Verb == "delete") ||
			a.Subresource == "status" && (a.Verb == "get" || a.Verb == "update" || a.Verb == "patch")
	case "leases":
		return a.Namespace == "kube-node-lease"
	case "events":
		return a.Verb == "create" || a.Verb == "patch" || a.Verb == "update"
	case "serviceaccounts":
		return a.Subresource == "token" && a.Verb == "create" || a.Subresource == "" && a.Verb == "get"
	case "configmaps", "secrets", "services", "endpointslices", "namespaces":
		return a.Subresource == "" && reads(a.Verb)
	}
	return false
}
