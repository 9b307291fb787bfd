// Package attributes shows requests, and our authorizer, to the admission libraries of k8s.io/apiserver
// in the form that these know.
package attributes

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	k8sadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
)

// Of returns the attributes of a request, with the objects as they are in it. As in Kubernetes, the
// namespace of a Namespace is its own name.
func Of(ctx context.Context, req *admission.Request) k8sadmission.Attributes {
	namespace := req.Namespace
	if namespace == "" && req.Kind.GroupVersionResource() == namespaces {
		namespace = req.Name
	}
	return k8sadmission.NewAttributesRecord(
		req.Object, req.Old, Kind(req), namespace, req.Name, req.Kind.GroupVersionResource(), req.Subresource,
		Operation(req.Verb), req.Options, req.DryRun, caller(ctx),
	)
}

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// Kind returns the kind of a request's object, which a subresource may have for itself.
func Kind(req *admission.Request) schema.GroupVersionKind {
	if s := req.Kind.Subresource(req.Subresource); s != nil {
		return s.Kind
	}
	return req.Kind.GroupVersionKind
}

// Operation returns Kubernetes' name of a verb.
func Operation(verb admission.Verb) k8sadmission.Operation {
	switch verb {
	case admission.Create:
		return k8sadmission.Create
	case admission.Update:
		return k8sadmission.Update
	case admission.Delete:
		return k8sadmission.Delete
	case admission.Connect:
		return k8sadmission.Connect
	}
	return k8sadmission.Operation(verb)
}

// caller returns the user of the request that ctx belongs to.
func caller(ctx context.Context) user.Info {
	u, _ := authn.UserFrom(ctx)
	return Info(u)
}

// Info returns a user as Kubernetes' libraries know it.
func Info(u authn.User) *user.DefaultInfo {
	return &user.DefaultInfo{Name: u.Name, UID: u.UID, Groups: u.Groups, Extra: u.Extra}
}
