// Package authz decides who may do what. Until there is RBAC, the rules are those of the
// plane's own parts, written in this file; everybody else may read what discovery needs.
package authz

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/services/apiserver/internal/authn"
)

// Attributes are what a request wants to do.
type Attributes struct {
	// Verb is Kubernetes' name of the operation, or the lower-case HTTP method for paths that
	// are no resources.
	Verb string
	// Path is set for what is no resource; the rest is then empty.
	Path string
	// Group, Resource, Subresource, Namespace and Name say on what.
	Group, Resource, Subresource string
	Namespace, Name              string
}

// Authorize says nil when user may do it, else a Forbidden error in Kubernetes' words.
func Authorize(_ context.Context, user authn.User, a Attributes) error {
	if allowed(user, a) {
		return nil
	}
	return forbidden(user, a)
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

// forbidden words a refusal as Kubernetes does.
func forbidden(user authn.User, a Attributes) error {
	if a.Path != "" {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusForbidden,
			Reason: metav1.StatusReasonForbidden, Details: &metav1.StatusDetails{},
			Message: fmt.Sprintf("forbidden: User %q cannot %s path %q", user.Name, a.Verb, a.Path),
		}}
	}
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	where := " at the cluster scope"
	if a.Namespace != "" {
		where = fmt.Sprintf(" in the namespace %q", a.Namespace)
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: a.Group, Resource: a.Resource}, a.Name,
		fmt.Errorf("User %q cannot %s resource %q in API group %q%s", user.Name, a.Verb, resource, a.Group, where)) //nolint:staticcheck // Kubernetes' words.
}
