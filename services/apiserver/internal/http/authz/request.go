package authz

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// FromRequest reads from an HTTP request what it wants to do, as Kubernetes does. It uses the path
// alone, whether or not anything is served there, so that a refusal doesn't reveal what exists.
func FromRequest(r *http.Request) Attributes {
	nothing := Attributes{Verb: strings.ToLower(r.Method), Path: r.URL.Path, NonResource: true}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var a Attributes
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[1:]
	case len(parts) > 3 && parts[0] == "apis":
		a.Group, parts = parts[1], parts[2:]
	default:
		return nothing
	}
	a.Version, parts = parts[0], parts[1:]
	special := parts[0] == "watch" || parts[0] == "proxy"
	if special {
		if len(parts) < 2 {
			return nothing
		}
		a.Verb, parts = parts[0], parts[1:]
	} else {
		a.Verb = verbs[r.Method]
	}
	if parts[0] == "namespaces" && len(parts) > 1 {
		// In Kubernetes a namespace object is in the namespace that it names.
		a.Namespace = parts[1]
		if len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
			parts = parts[2:]
		}
	}
	a.Resource = parts[0]
	if len(parts) > 1 {
		a.Name = parts[1]
	}
	if len(parts) > 2 && a.Verb != "proxy" {
		a.Subresource = parts[2]
	}
	a.collection(r.URL.Query(), special)
	return a
}

// verbs are the verbs of HTTP methods on single objects.
var verbs = map[string]string{
	http.MethodPost: "create", http.MethodGet: "get", http.MethodHead: "get", http.MethodPut: "update",
	http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// collection finds the verb of a request on a collection, and the requirements of its selectors.
func (a *Attributes) collection(query url.Values, special bool) {
	selects := slices.Contains([]string{"list", "watch", "deletecollection"}, a.Verb)
	if a.Name == "" && a.Verb == "get" {
		a.Verb = "list"
		if watch, ok := query["watch"]; ok && (len(watch) == 0 || !strings.EqualFold(watch[0], "false") && watch[0] != "0") {
			a.Verb = "watch"
		}
		selects = true
		if selector, err := fields.ParseSelector(query.Get("fieldSelector")); err == nil {
			// To list a single object by its name, the right to that object is enough.
			if name, ok := selector.RequiresExactMatch("metadata.name"); ok && len(content.IsPathSegmentName(name)) == 0 {
				a.Name = name
			}
		}
	}
	if a.Name == "" && a.Verb == "delete" {
		a.Verb, selects = "deletecollection", true
	}
	if !selects || special {
		return // The deprecated watch paths don't apply selectors everywhere.
	}
	if text := query.Get("fieldSelector"); text != "" {
		selector, err := fields.ParseSelector(text)
		if a.FieldsErr = err; err == nil {
			a.Fields = selector.Requirements()
		}
	}
	if text := query.Get("labelSelector"); text != "" {
		selector, err := labels.Parse(text)
		if a.LabelsErr = err; err == nil {
			a.Labels, _ = selector.Requirements()
		}
	}
}
