// Package openapi describes the API to its clients: OpenAPI v2 at /openapi/v2, and OpenAPI v3, a
// document for each group and version, at /openapi/v3. kubectl uses them to validate and explain.
//
// The definitions of the types are generated from their sources; the paths come from the table of
// served kinds. A document is built when it is first requested, and again when the kinds have changed.
package openapi

//go:generate ./generate.sh

import (
	"fmt"
	"net/http"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/garboard/garboard/libs/scheme"
)

// title is the title of Kubernetes' own documents; some clients look for it.
const title = "Kubernetes"

// Handler serves the documents.
type Handler struct{ documents *scheme.Derived[http.Handler] }

// New returns the handler of /openapi/v2, /openapi/v3 and everything below it. version is the
// API's, for example v1.37.2.
func New(table *scheme.Table, version string) *Handler {
	return &Handler{scheme.Derive(table, func(kinds []*scheme.Kind) http.Handler {
		handler, err := describe(table, kinds, version)
		if err != nil {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			})
		}
		return handler
	})}
}

// ServeHTTP serves the documents of the kinds that are served now.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.documents.Get().ServeHTTP(w, r)
}

// describe returns the handler of the documents of kinds.
func describe(table *scheme.Table, kinds []*scheme.Kind, version string) (http.Handler, error) {
	d := documents{kinds: kinds, version: version, names: newNames(table, kinds)}
	mux := &routes{exact: map[string]http.Handler{}, documents: map[string]bool{}}
	handler.NewOpenAPIServiceLazy(cached.Once(cached.Func(d.v2))).RegisterOpenAPIVersionedService("/openapi/v2", mux)
	v3 := handler3.NewOpenAPIService()
	for _, gv := range groupVersions(kinds) {
		mux.documents["/openapi/v3"+rootPath(gv)] = true
		v3.UpdateGroupVersionLazy(strings.TrimPrefix(rootPath(gv), "/"), cached.Once(cached.Func(func() (*spec3.OpenAPI, string, error) {
			return d.v3(gv)
		})))
	}
	if err := v3.RegisterOpenAPIV3VersionedService("/openapi/v3", mux); err != nil {
		return nil, fmt.Errorf("serving OpenAPI v3: %w", err)
	}
	return mux, nil
}

// routes is the part of a multiplexer that the library's handlers need.
type routes struct {
	exact     map[string]http.Handler
	prefixes  []prefix
	documents map[string]bool // the documents that prefixes may serve
}

type prefix struct {
	path    string
	handler http.Handler
}

// Handle implements the library's interface for registering a path.
func (r *routes) Handle(path string, handler http.Handler) { r.exact[path] = handler }

// HandlePrefix implements the library's interface for registering a path prefix.
func (r *routes) HandlePrefix(path string, handler http.Handler) {
	r.prefixes = append(r.prefixes, prefix{path, handler})
}

// ServeHTTP serves a document.
func (r *routes) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if handler := r.exact[req.URL.Path]; handler != nil {
		handler.ServeHTTP(w, req)
		return
	}
	for _, p := range r.prefixes {
		if strings.HasPrefix(req.URL.Path, p.path) && r.documents[req.URL.Path] {
			p.handler.ServeHTTP(w, req)
			return
		}
	}
	http.NotFound(w, req)
}

// documents builds documents.
type documents struct {
	kinds   []*scheme.Kind
	version string
	names   names
}

func (d documents) v2() (*spec.Swagger, string, error) {
	document, err := builder.BuildOpenAPISpecFromRoutes(containers(d.kinds, nil), &common.Config{
		Info:           &spec.Info{InfoProps: spec.InfoProps{Title: title, Version: d.version}},
		GetDefinitions: d.definitions, GetDefinitionName: d.names.definition,
		GetOperationIDAndTagsFromRoute: operation,
		DefaultResponse:                &spec.Response{ResponseProps: spec.ResponseProps{Description: "Default Response."}},
	})
	if err != nil {
		return nil, "", fmt.Errorf("building OpenAPI v2: %w", err)
	}
	return document, d.version, nil
}

func (d documents) v3(gv schema.GroupVersion) (*spec3.OpenAPI, string, error) {
	document, err := builder3.BuildOpenAPISpecFromRoutes(containers(d.kinds, &gv), &common.OpenAPIV3Config{
		Info:           &spec.Info{InfoProps: spec.InfoProps{Title: title, Version: d.version}},
		GetDefinitions: d.definitions, GetDefinitionName: d.names.definition,
		GetOperationIDAndTagsFromRoute: operation,
		DefaultResponse:                &spec3.Response{ResponseProps: spec3.ResponseProps{Description: "Default Response."}},
	})
	if err != nil {
		return nil, "", fmt.Errorf("building OpenAPI v3 of %s: %w", gv, err)
	}
	return document, d.version, nil
}

// operation returns a route's identifier, and its group and version as a tag.
func operation(r common.Route) (string, []string, error) {
	tag := "core_v1"
	if parts := strings.Split(strings.Trim(r.Path(), "/"), "/"); parts[0] == "apis" && len(parts) > 2 {
		tag = groupName(parts[1]) + "_" + parts[2]
	}
	return r.OperationName(), []string{tag}, nil
}

// groupName returns a group's name in tags and identifiers: rbacAuthorization for
// rbac.authorization.k8s.io.
func groupName(group string) string {
	if group == "" {
		return "core"
	}
	parts := strings.Split(strings.TrimSuffix(group, ".k8s.io"), ".")
	for i := range parts[1:] {
		parts[i+1] = title1(parts[i+1])
	}
	return strings.Join(parts, "")
}

// groupVersions returns the kinds' group versions, each once.
func groupVersions(kinds []*scheme.Kind) []schema.GroupVersion {
	var found []schema.GroupVersion
	seen := map[schema.GroupVersion]bool{}
	for _, kind := range kinds {
		if gv := kind.GroupVersion(); !seen[gv] {
			seen[gv] = true
			found = append(found, gv)
		}
	}
	return found
}

func rootPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return path.Join("/api", gv.Version)
	}
	return path.Join("/apis", gv.Group, gv.Version)
}
