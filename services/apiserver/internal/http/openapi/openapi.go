// Package openapi describes the API to its clients: OpenAPI v2 at /openapi/v2, and OpenAPI v3, a
// document for each group and version and for each path of discovery, at /openapi/v3. kubectl uses
// them to validate and explain.
//
// The definitions of the types are generated from their sources, those of custom kinds come with their
// definitions, and the paths come from the table of served kinds. A document is built when it is first
// requested, and again when its kinds have changed. It is kept compressed.
package openapi

//go:generate ./generate.sh

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

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
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
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
// API's, for example v1.37.2. definition returns what else is known of a kind; nil for a kind that is
// being removed.
func New(table *scheme.Table, version string, definition func(*scheme.Kind) *kinds.Definition) *Handler {
	d := documents{version: version, names: newNames(table), types: table.Scheme(), ofCustom: sync.OnceValue(customModels)}
	before := &server{}
	return &Handler{scheme.Derive(table, func(served []*scheme.Kind) *server {
		d.subjects = subjectsOf(scheme.Served(served), definition)
		before = d.describe(before)
		return before
	})}
}

// ServeHTTP serves a document.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.documents.Get().ServeHTTP(w, r)
}

// describe returns the server of all documents. It takes over the documents of another server whose
// kinds are the same.
func (d documents) describe(before *server) *server {
	s := &server{v3: map[string]*document{}}
	s.v2 = &document{convert: handler.ToProtoBinary, build: func() ([]byte, error) {
		built, _, err := d.v2()
		if err != nil {
			return nil, err
		}
		return built.MarshalJSON() // As the library does; json.Marshal would also escape HTML.
	}}
	for gv, of := range d.byGroupVersion() {
		at := v3Path + rootPath(gv)
		if known := before.v3[at]; known != nil && slices.Equal(known.of, of.subjects) {
			s.v3[at] = known
			continue
		}
		s.v3[at] = &document{of: of.subjects, convert: handler3.ToV3ProtoBinary, build: func() ([]byte, error) { return encode(of.v3(gv)) }}
	}
	for name, build := range d.discoveryDocuments(d.builtin()) {
		at := v3Path + "/" + name
		if s.v3[at] = before.v3[at]; s.v3[at] == nil { // Built-in kinds stay the same.
			s.v3[at] = &document{build: func() ([]byte, error) { return encode(build()) }, convert: handler3.ToV3ProtoBinary}
		}
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

// subject is a kind that documents describe, with its definition, which may be nil.
type subject struct {
	*scheme.Kind
	definition *kinds.Definition
}

func subjectsOf(served []*scheme.Kind, definition func(*scheme.Kind) *kinds.Definition) []subject {
	subjects := make([]subject, len(served))
	for i, kind := range served {
		subjects[i] = subject{kind, definition(kind)}
	}
	return subjects
}

// documents builds documents.
type documents struct {
	subjects []subject
	version  string
	names    names
	types    *runtime.Scheme
	// ofCustom returns the definitions to which those of custom kinds refer.
	ofCustom func() models
}

// byGroupVersion returns what builds the document of each group and version.
func (d documents) byGroupVersion() map[schema.GroupVersion]documents {
	all := map[schema.GroupVersion]documents{}
	for _, one := range d.subjects {
		gv := one.GroupVersion()
		of, ok := all[gv]
		if !ok {
			of, of.subjects = d, nil
		}
		of.subjects = append(of.subjects, one)
		all[gv] = of
	}
	return all
}

// builtin returns the built-in kinds: as in Kubernetes, only their groups have paths of discovery.
func (d documents) builtin() []*scheme.Kind {
	var all []*scheme.Kind
	for _, one := range d.subjects {
		if !one.Custom {
			all = append(all, one.Kind)
		}
	}
	return all
}

func (d documents) v2() (*spec.Swagger, string, error) {
	document, err := builder.BuildOpenAPISpecFromRoutes(append(containers(d.subjects, d.types), aboutAll(d.builtin())...), &common.Config{
		ProtocolList:        []string{"https"},
		SecurityDefinitions: &spec.SecurityDefinitions{bearer: {SecuritySchemeProps: bearerToken()}},
		DefaultSecurity:     []map[string][]string{{bearer: {}}},
		Info:                &spec.Info{InfoProps: spec.InfoProps{Title: title, Version: d.version}},
		GetDefinitions:      d.definitions(true), GetDefinitionName: d.names.definition,
		GetOperationIDAndTagsFromRoute: operation,
		DefaultResponse:                &spec.Response{ResponseProps: spec.ResponseProps{Description: "Default Response."}},
		CommonResponses: map[int]spec.Response{
			http.StatusUnauthorized: {ResponseProps: spec.ResponseProps{Description: "Unauthorized"}},
		},
	})
	if err != nil {
		return nil, "", fmt.Errorf("building OpenAPI v2: %w", err)
	}
	document.Definitions = handler.PruneDefaults(document.Definitions) // As Kubernetes does: only v3 has defaults.
	return document, d.version, nil
}

// v3 builds the document of a group and version, which all subjects must have.
func (d documents) v3(gv schema.GroupVersion) (*spec3.OpenAPI, string, error) {
	paths, schemes := containers(d.subjects, d.types), spec3.SecuritySchemes(nil)
	if !d.custom() { // As in Kubernetes.
		paths, schemes = append(paths, resourceLists(d.builtin(), &gv)...), securitySchemes()
	}
	document, err := builder3.BuildOpenAPISpecFromRoutes(paths, &common.OpenAPIV3Config{
		SecuritySchemes: schemes,
		Info:            &spec.Info{InfoProps: d.info()},
		GetDefinitions:  d.definitions(false), GetDefinitionName: d.names.definition,
		GetOperationIDAndTagsFromRoute: operation,
		DefaultResponse:                &spec3.Response{ResponseProps: spec3.ResponseProps{Description: "Default Response."}},
		CommonResponses: map[int]*spec3.Response{
			http.StatusUnauthorized: {ResponseProps: spec3.ResponseProps{Description: "Unauthorized"}},
		},
	})
	if err != nil {
		return nil, "", fmt.Errorf("building OpenAPI v3 of %s: %w", gv, err)
	}
	return document, d.version, nil
}

// info returns title and version of a document, which are others in Kubernetes if all kinds are custom.
func (d documents) info() spec.InfoProps {
	if d.custom() {
		return spec.InfoProps{Title: "Kubernetes CRD Swagger", Version: "v0.1.0"}
	}
	return spec.InfoProps{Title: title, Version: d.version}
}

// operation returns a route's identifier, and its group and version as a tag.
func operation(r common.Route) (string, []string, error) {
	return r.OperationName(), []string{tag(r.Path())}, nil
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

func rootPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return path.Join("/api", gv.Version)
	}
	return path.Join("/apis", gv.Group, gv.Version)
}
