package rest

import (
	"net/http"
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
	// Path is what follows a subresource that is a proxy, with its leading slash; empty if nothing does.
	Path string
	// Watch marks one of the deprecated watch paths.
	Watch bool
}

// ParsePath parses an API path: /api/VERSION/... or /apis/GROUP/VERSION/..., then
// [watch/][namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]], and any path below a subresource that is
// a proxy. It returns false if the table serves nothing there.
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
	if parts[0] == "namespaces" && len(parts) > 2 {
		// A third part names a resource in the namespace, unless it is one of the few subresources
		// of the namespace itself.
		if kind := table.Resource(gv.WithResource(parts[2])); kind != nil && kind.Namespaced {
			target.Namespace, parts = parts[1], parts[2:]
			if target.Namespace == "" {
				return target, false
			}
		}
	}
	if slices.Contains(parts[:min(len(parts), 3)], "") {
		return target, false
	}
	target.Kind = table.Resource(gv.WithResource(parts[0]))
	if target.Kind == nil || target.Kind.Virtual && !target.Kind.Observed && len(parts) > 1 {
		return target, false
	}
	if len(parts) > 1 {
		target.Name = parts[1]
	}
	if len(parts) > 2 {
		target.Subresource = parts[2]
	}
	if target.Kind.Namespaced && target.Namespace == "" && (target.Name != "" || target.Kind.Virtual && !target.Kind.Observed) {
		return target, false
	}
	if target.Subresource == "" {
		return target, true
	}
	row := target.Kind.Subresource(target.Subresource)
	if row == nil || target.Watch || len(parts) > 3 && !row.Proxy {
		return target, false
	}
	if row.Proxy {
		target.Path = below(path, strings.Join(parts[3:], "/"))
	}
	return target, true
}

// below returns what follows a proxy in a path: rest, with the slashes around it that splitting took away.
func below(path, rest string) string {
	switch {
	case rest == "" && !strings.HasSuffix(path, "/"):
		return ""
	case rest == "":
		return "/"
	case strings.HasSuffix(path, "/"):
		return "/" + rest + "/"
	}
	return "/" + rest
}

// Verb returns Kubernetes' name of what an HTTP method does to the target; empty if the row of the
// kind or of the subresource does not list it. watching reports that the query asks for a watch.
func (t Target) Verb(method string, watching bool) string {
	if row := t.Kind.Subresource(t.Subresource); row != nil && row.Proxy {
		switch method {
		case http.MethodHead:
			return "get"
		case http.MethodOptions:
			return "options" // As in Kubernetes, whoever may do anything may do it.
		}
	}
	verb := t.verb(method, watching || t.Watch)
	if slices.Contains(t.verbs(), verb) && (!t.everywhere() || method == http.MethodGet) {
		return verb
	}
	return ""
}

// everywhere reports whether the target is a collection in all namespaces, which can only be read.
func (t Target) everywhere() bool { return t.Kind.Namespaced && t.Namespace == "" }

// verbs returns the verbs that the rows list.
func (t Target) verbs() []string {
	if t.Subresource == "" {
		return t.Kind.Verbs()
	}
	if s := t.Kind.Subresource(t.Subresource); s != nil {
		return s.Verbs
	}
	return nil
}

// verb returns what a method means for a target of this form, whether or not it is served.
func (t Target) verb(method string, watching bool) string {
	one := t.Name != "" && !t.Watch
	switch {
	case method == http.MethodGet && one:
		return "get"
	case method == http.MethodGet && watching:
		return "watch"
	case method == http.MethodGet:
		return "list"
	case t.Watch:
		return ""
	case method == http.MethodPost && (!one || t.Subresource != ""):
		return "create"
	case method == http.MethodPut && one:
		return "update"
	case method == http.MethodPatch && one:
		return "patch"
	case method == http.MethodDelete && one:
		return "delete"
	case method == http.MethodDelete:
		return "deletecollection"
	}
	return ""
}

// Methods returns the HTTP methods that the target supports.
func (t Target) Methods() []string {
	var methods []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if t.Verb(method, false) != "" {
			methods = append(methods, method)
		}
	}
	return methods
}
