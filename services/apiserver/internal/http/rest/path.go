package rest

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
)

// Target is what the path of a request names.
type Target struct {
	// Kind is the row of the table.
	Kind *scheme.Kind
	// Namespace is empty for all namespaces and for cluster-scoped kinds.
	Namespace string
	// Name is empty for the collection.
	Name string
	// Subresource is empty for the object itself.
	Subresource string
	// Watch marks one of the deprecated watch paths.
	Watch bool
}

// ParsePath parses an API path: /api/VERSION/... or /apis/GROUP/VERSION/..., then
// [watch/][namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]]. It returns false if the table
// serves nothing there.
func ParsePath(table *scheme.Table, path string) (Target, bool) {
	var target Target
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var gv schema.GroupVersion
	switch {
	case len(parts) > 2 && parts[0] == "api":
		gv, parts = schema.GroupVersion{Version: parts[1]}, parts[2:]
	case len(parts) > 3 && parts[0] == "apis" && parts[1] != "":
		gv, parts = schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	default:
		return target, false
	}
	if parts[0] == "watch" && len(parts) > 1 {
		target.Watch, parts = true, parts[1:]
	}
	if slices.Contains(parts, "") {
		return target, false
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		// A third part names a resource in the namespace, unless it is one of the few subresources
		// of the namespace itself.
		if kind := table.Resource(gv.WithResource(parts[2])); kind != nil && kind.Namespaced {
			target.Namespace, parts = parts[1], parts[2:]
		}
	}
	target.Kind = table.Resource(gv.WithResource(parts[0]))
	if target.Kind == nil || len(parts) > 3 || target.Kind.Virtual && !target.Kind.Observed && len(parts) > 1 {
		return target, false
	}
	if len(parts) > 1 {
		target.Name = parts[1]
	}
	if len(parts) > 2 {
		target.Subresource = parts[2]
	}
	if target.Kind.Namespaced && target.Namespace == "" && (target.Name != "" || target.Kind.Virtual) {
		return target, false
	}
	if target.Subresource != "" && (!target.Kind.HasSubresource(target.Subresource) || target.Watch) {
		return target, false
	}
	return target, true
}

// Verb returns Kubernetes' name of what an HTTP method does to the target; empty if it is not
// served. watching reports that the query asks for a watch.
func (t Target) Verb(method string, watching bool) string {
	if t.Kind.Observed {
		switch {
		case method != "GET" || t.Watch || watching && t.Name == "":
			return ""
		case t.Name != "":
			return "get"
		}
		return "list"
	}
	if t.Kind.Virtual {
		if method == "POST" && t.Name == "" && !t.Watch {
			return "create"
		}
		return ""
	}
	watching = watching || t.Watch
	switch method {
	case "GET":
		switch {
		case t.Subresource != "":
			if t.createOnly() || t.Subresource == "finalize" {
				return ""
			}
			return "get"
		case t.Name != "" && !t.Watch:
			return "get"
		case watching:
			return "watch"
		}
		return "list"
	case "POST":
		if t.Watch {
			return ""
		}
		if t.Name == "" || t.createOnly() {
			return "create"
		}
		return ""
	case "PUT", "PATCH":
		if t.Name == "" || t.Watch || !t.updatable(method) {
			return ""
		}
		if method == "PUT" {
			return "update"
		}
		return "patch"
	case "DELETE":
		if t.Subresource != "" || t.Watch {
			return ""
		}
		if t.Name == "" {
			if t.Kind.Kind == "Namespace" {
				return ""
			}
			return "deletecollection"
		}
		return "delete"
	}
	return ""
}

// createOnly reports whether the target is a subresource that supports only create.
func (t Target) createOnly() bool {
	return t.Subresource == "binding" || t.Subresource == "eviction" || t.Subresource == "token"
}

func (t Target) updatable(method string) bool {
	switch t.Subresource {
	case "binding", "eviction", "token", "log":
		return false
	case "finalize":
		return method == "PUT"
	}
	return true
}

// Methods returns the HTTP methods that the target supports.
func (t Target) Methods() []string {
	var methods []string
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		if t.Verb(method, false) != "" {
			methods = append(methods, method)
		}
	}
	return methods
}
