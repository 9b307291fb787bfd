// Package openapi describes the API to its clients: OpenAPI v2 at /openapi/v2, and OpenAPI v3, a
// document for each group and version, at /openapi/v3. kubectl uses them to validate and explain.
//
// The definitions of the types are generated from their sources; the paths come from the table of
// served kinds. A document is built when it is first requested, and again when the kinds have changed.
// It is kept compressed.
package openapi

//go:generate ./generate.sh

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/garboard/garboard/libs/scheme"
)

// title is the title of Kubernetes' own documents; some clients look for it.
const title = "Kubernetes"

// The paths of the documents.
const (
	v2Path = "/openapi/v2"
	v3Path = "/openapi/v3"
)

// server serves the documents. It is safe for concurrent use.
type server struct {
	v2    *document
	index *document            // of v3
	v3    map[string]*document // by path
}

// Handler serves the documents of the kinds that are served now.
type Handler struct{ documents *scheme.Derived[*server] }

// New returns the handler of /openapi/v2, /openapi/v3 and everything below it. version is the
// API's, for example v1.37.2. returnsDeleted reports whether DELETE of a kind returns the object
// instead of a Status.
func New(table *scheme.Table, version string, returnsDeleted func(*scheme.Kind) bool) *Handler {
	return &Handler{scheme.Derive(table, func(kinds []*scheme.Kind) *server {
		return describe(table, kinds, version, returnsDeleted)
	})}
}

// ServeHTTP serves a document.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.documents.Get().ServeHTTP(w, r)
}

// describe returns the server of the documents of kinds.
func describe(table *scheme.Table, kinds []*scheme.Kind, version string, returnsDeleted func(*scheme.Kind) bool) *server {
	d := documents{kinds: kinds, version: version, names: newNames(table, kinds), types: table.Scheme(), returnsDeleted: returnsDeleted}
	s := &server{v3: map[string]*document{}}
	s.v2 = &document{convert: handler.ToProtoBinary, build: func() ([]byte, error) {
		built, _, err := d.v2()
		if err != nil {
			return nil, err
		}
		return built.MarshalJSON() // As the library does; json.Marshal would also escape HTML.
	}}
	for _, gv := range groupVersions(kinds) {
		s.v3[v3Path+rootPath(gv)] = &document{build: func() ([]byte, error) { return encode(d.v3(gv)) }, convert: handler3.ToV3ProtoBinary}
	}
	s.index = &document{build: s.buildIndex}
	return s
}

// encode returns a built document as JSON.
func encode[T any](built T, _ string, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(built)
	if err != nil {
		return nil, fmt.Errorf("encoding an OpenAPI document: %w", err)
	}
	return data, nil
}

// buildIndex returns the index of OpenAPI v3: the documents' URLs with their hashes.
func (s *server) buildIndex() ([]byte, error) {
	index := handler3.OpenAPIV3Discovery{Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}}
	for at, document := range s.v3 {
		etag, _, err := document.version()
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(at, v3Path+"/")
		index.Paths[name] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: hashed(name, etag)}
	}
	return encode(index, "", nil)
}

// documents builds documents.
type documents struct {
	kinds   []*scheme.Kind
	version string
	names   names
	types   *runtime.Scheme

	returnsDeleted func(*scheme.Kind) bool
}

func (d documents) v2() (*spec.Swagger, string, error) {
	document, err := builder.BuildOpenAPISpecFromRoutes(containers(d.kinds, nil, d.types, d.returnsDeleted), &common.Config{
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
	document, err := builder3.BuildOpenAPISpecFromRoutes(containers(d.kinds, &gv, d.types, d.returnsDeleted), &common.OpenAPIV3Config{
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
