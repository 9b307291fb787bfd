// Package openapi describes the API to its clients: OpenAPI v2 at /openapi/v2, and OpenAPI v3, a
// document for each group and version and for each path of discovery, at /openapi/v3. kubectl uses
// them to validate and explain.
//
// The definitions of the types are generated from their sources, those of custom kinds come with their
// definitions, and the paths come from the table of served kinds. A document is built when it is first
// requested, and again when its kinds have changed. It is kept compressed, and so is what each custom kind adds
// to documents: when one changes, the others are not described again.
package openapi

//go:generate ./generate.sh

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync/atomic"

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

	builtin   *base // OpenAPI v2 of the built-in kinds
	fragments map[subject]fragments
}

// Handler serves the documents of the kinds that are served now.
type Handler struct {
	documents *scheme.Derived[*server]
	source    Source
	joined    atomic.Pointer[joined]
}

// New returns the handler of /openapi/v2, /openapi/v3 and everything below it. version is the
// API's, for example v1.37.2. definition returns what else is known of a kind; nil for a kind that is
// being removed. The index of OpenAPI v3 also has the documents of source, which others serve.
func New(table *scheme.Table, version string, definition func(*scheme.Kind) *kinds.Definition, source Source) *Handler {
	d := newDocuments(table, version)
	before := &server{}
	return &Handler{source: source, documents: scheme.Derive(table, func(served []*scheme.Kind) *server {
		d.subjects = subjectsOf(scheme.Served(served), definition)
		before = d.describe(before)
		return before
	})}
}

func newDocuments(table *scheme.Table, version string) documents {
	return documents{version: version, names: newNames(table), types: table.Scheme(), inV2: newDialect(true), inV3: newDialect(false)}
}

// ServeHTTP serves a document.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := h.documents.Get()
	index, v2 := s.index, s.v2
	if others := h.source.OpenAPI(); len(others.URLs)+len(others.Swaggers) > 0 {
		joined := h.join(s, others)
		index, v2 = joined.index, joined.v2
	}
	s.serve(w, r, index, v2)
}

// describe returns the server of all documents. It takes over what another server has of the same kinds.
func (d documents) describe(before *server) *server {
	builtin, custom := d.split()
	s := &server{v3: map[string]*document{}, builtin: before.builtin, fragments: make(map[subject]fragments, len(custom.subjects))}
	if s.builtin == nil { // Built-in kinds stay the same.
		s.builtin = builtin.base()
	}
	for _, one := range custom.subjects {
		known, ok := before.fragments[one]
		if !ok {
			known = fragments{v2: &fragment{of: one}, v3: &fragment{of: one}}
		}
		s.fragments[one] = known
	}
	s.v2 = &s.builtin.document
	if len(custom.subjects) > 0 {
		under, parts := s.builtin, partsOf(custom.subjects, s.fragments, func(f fragments) *fragment { return f.v2 })
		s.v2 = &document{convert: handler.ToProtoBinary, build: func() ([]byte, error) { return under.with(custom, d.inV2, parts) }}
	}
	for gv, of := range d.byGroupVersion() {
		at := v3Path + rootPath(gv)
		if known := before.v3[at]; known != nil && slices.Equal(known.of, of.subjects) {
			s.v3[at] = known
			continue
		}
		s.v3[at] = of.documentOf(gv, s.fragments)
	}
	for name, build := range d.discoveryDocuments(d.builtin()) {
		at := v3Path + "/" + name
		if s.v3[at] = before.v3[at]; s.v3[at] == nil {
			s.v3[at] = &document{build: func() ([]byte, error) { return encode(build()) }, convert: handler3.ToV3ProtoBinary}
		}
	}
	s.index = &document{build: func() ([]byte, error) { return s.buildIndex(&d.inV3.generated) }}
	return s
}

// encode returns a built document as JSON.
func encode[T any](built T, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(built)
	if err != nil {
		return nil, fmt.Errorf("encoding an OpenAPI document: %w", err)
	}
	return data, nil
}

// etags returns the hashes of all documents of OpenAPI v3. It builds them, unless they are built.
func (s *server) etags(definitions *shared) (map[string]string, error) {
	found := make(map[string]string, len(s.v3))
	return found, definitions.during(func() error {
		for at, document := range s.v3 {
			etag, _, err := document.version()
			if err != nil {
				return err
			}
			found[at] = etag
		}
		return nil
	})
}

// buildIndex returns the index of OpenAPI v3: the documents' URLs with their hashes.
func (s *server) buildIndex(generated *shared) ([]byte, error) {
	index := handler3.OpenAPIV3Discovery{Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}}
	etags, err := s.etags(generated)
	if err != nil {
		return nil, err
	}
	for at, etag := range etags {
		name := strings.TrimPrefix(at, v3Path+"/")
		index.Paths[name] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: hashed(name, etag)}
	}
	return encode(index, nil)
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
	subjects   []subject
	version    string
	names      names
	types      *runtime.Scheme
	inV2, inV3 *dialect
}

// split returns what builds documents of the built-in kinds, and of the custom ones in an order that does not
// depend on when they came.
func (d documents) split() (builtin, custom documents) {
	builtin, custom = d, d
	builtin.subjects, custom.subjects = nil, nil
	for _, one := range d.subjects {
		if one.Custom {
			custom.subjects = append(custom.subjects, one)
		} else {
			builtin.subjects = append(builtin.subjects, one)
		}
	}
	slices.SortFunc(custom.subjects, func(a, b subject) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Version, b.Version), strings.Compare(a.Kind.Kind, b.Kind.Kind))
	})
	return builtin, custom
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

// v2 builds OpenAPI v2 of some paths.
func (d documents) v2(paths []common.RouteContainer, definitions common.GetOpenAPIDefinitions) (*spec.Swagger, error) {
	document, err := builder.BuildOpenAPISpecFromRoutes(paths, &common.Config{
		ProtocolList:        []string{"https"},
		SecurityDefinitions: &spec.SecurityDefinitions{bearer: {SecuritySchemeProps: bearerToken()}},
		DefaultSecurity:     []map[string][]string{{bearer: {}}},
		Info:                &spec.Info{InfoProps: spec.InfoProps{Title: title, Version: d.version}},
		GetDefinitions:      definitions, GetDefinitionName: d.names.definition,
		GetOperationIDAndTagsFromRoute: operation,
		DefaultResponse:                &spec.Response{ResponseProps: spec.ResponseProps{Description: "Default Response."}},
		CommonResponses: map[int]spec.Response{
			http.StatusUnauthorized: {ResponseProps: spec.ResponseProps{Description: "Unauthorized"}},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("building OpenAPI v2: %w", err)
	}
	document.Definitions = handler.PruneDefaults(document.Definitions) // As Kubernetes does: only v3 has defaults.
	return document, nil
}

// v3 builds OpenAPI v3 of some paths.
func (d documents) v3(paths []common.RouteContainer, definitions common.GetOpenAPIDefinitions) (*spec3.OpenAPI, error) {
	document, err := builder3.BuildOpenAPISpecFromRoutes(paths, &common.OpenAPIV3Config{
		SecuritySchemes: securitySchemes(),
		Info:            &spec.Info{InfoProps: spec.InfoProps{Title: title, Version: d.version}},
		GetDefinitions:  definitions, GetDefinitionName: d.names.definition,
		GetOperationIDAndTagsFromRoute: operation,
		DefaultResponse:                &spec3.Response{ResponseProps: spec3.ResponseProps{Description: "Default Response."}},
		CommonResponses: map[int]*spec3.Response{
			http.StatusUnauthorized: {ResponseProps: spec3.ResponseProps{Description: "Unauthorized"}},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("building OpenAPI v3: %w", err)
	}
	return document, nil
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
