package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/garboard/garboard/libs/scheme"
)

// bearer is how clients authenticate, as Kubernetes documents it.
const bearer = "BearerToken"

func bearerToken() spec.SecuritySchemeProps {
	return spec.SecuritySchemeProps{Type: "apiKey", Name: "authorization", In: "header", Description: "Bearer Token authentication"}
}

// getRoute is an operation that reads no object: discovery, the version, the keys of tokens.
type getRoute struct {
	path, operation, description string
	produces                     []string
	consumed                     bool // says that the documents of OpenAPI v2 have produces as what is consumed, too
	response                     any
}

func (g getRoute) Method() string                 { return http.MethodGet }
func (g getRoute) Path() string                   { return g.path }
func (g getRoute) OperationName() string          { return g.operation }
func (g getRoute) Parameters() []common.Parameter { return nil }
func (g getRoute) Description() string            { return g.description }
func (g getRoute) Produces() []string             { return g.produces }
func (g getRoute) RequestPayloadSample() any      { return nil }
func (g getRoute) ResponsePayloadSample() any     { return g.response }
func (g getRoute) Metadata() map[string]any       { return nil }

func (g getRoute) Consumes() []string {
	if !g.consumed {
		return nil
	}
	return g.produces
}

func (g getRoute) StatusCodeResponses() []common.StatusCodeResponse {
	return []common.StatusCodeResponse{response{http.StatusOK, http.StatusText(http.StatusOK), g.response}}
}

func discoveryRoute(path, operation, description string, answer any) getRoute {
	return getRoute{path: path, operation: operation, description: description, produces: mediaTypes, consumed: true, response: answer}
}

// discoveryRoutes returns the operations that have documents of their own, by the name of the document in
// the index. Kubernetes documents no groups of custom kinds.
func discoveryRoutes(kinds []*scheme.Kind) map[string]getRoute {
	routes := map[string]getRoute{
		"api":  discoveryRoute("/api/", "getCoreAPIVersions", "get available API versions", metav1.APIVersions{}),
		"apis": discoveryRoute("/apis/", "getAPIVersions", "get available API versions", metav1.APIGroupList{}),
		"version": {
			path: "/version/", operation: "getCodeVersion", description: "get the version information for this server",
			produces: []string{"application/json"}, consumed: true, response: version.Info{},
		},
		".well-known/openid-configuration": {
			path: "/.well-known/openid-configuration/", operation: "getServiceAccountIssuerOpenIDConfiguration",
			description: "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
			produces:    []string{"application/json"}, response: "",
		},
		"openid/v1/jwks": {
			path: "/openid/v1/jwks/", operation: "getServiceAccountIssuerOpenIDKeyset",
			description: "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
			produces:    []string{"application/jwk-set+json"}, response: "",
		},
	}
	for _, kind := range kinds {
		if kind.Group != "" && !kind.Custom {
			routes["apis/"+kind.Group] = discoveryRoute("/apis/"+kind.Group+"/", "get"+title1(groupName(kind.Group))+"APIGroup",
				"get information of a group", metav1.APIGroup{})
		}
	}
	return routes
}

// resourceLists returns the operations that list the resources of each group and version, or of only one.
func resourceLists(kinds []*scheme.Kind, only *schema.GroupVersion) []common.RouteContainer {
	lists := map[schema.GroupVersion]common.RouteContainer{}
	for _, kind := range kinds {
		gv := kind.GroupVersion()
		if kind.Custom || only != nil && gv != *only {
			continue
		}
		lists[gv] = container{root: rootPath(gv), routes: []common.Route{discoveryRoute(
			rootPath(gv)+"/", "get"+title1(groupName(gv.Group))+title1(gv.Version)+"APIResources", "get available resources", metav1.APIResourceList{},
		)}}
	}
	return slices.Collect(maps.Values(lists))
}

// aboutAll returns the operations of discovery and their like for a document that has them all.
func aboutAll(kinds []*scheme.Kind) []common.RouteContainer {
	all := resourceLists(kinds, nil)
	for _, route := range discoveryRoutes(kinds) {
		all = append(all, container{root: route.path, routes: []common.Route{route}})
	}
	return all
}

// discoveryDocuments returns the documents of OpenAPI v3 that are not of a group and version, by name. They
// are parts of one document, since it costs the same to build one as to build all.
func (d documents) discoveryDocuments(kinds []*scheme.Kind) map[string]func() (*spec3.OpenAPI, error) {
	routes := discoveryRoutes(kinds)
	whole := sync.OnceValues(func() (*spec3.OpenAPI, error) {
		var all []common.RouteContainer
		for _, route := range routes {
			all = append(all, container{root: route.path, routes: []common.Route{route}})
		}
		return builder3.BuildOpenAPISpecFromRoutes(all, &common.OpenAPIV3Config{
			Info:           &spec.Info{InfoProps: spec.InfoProps{Title: title, Version: d.version}},
			GetDefinitions: d.inV3.generated.definitions, GetDefinitionName: d.names.definition,
			GetOperationIDAndTagsFromRoute: operation, SecuritySchemes: securitySchemes(),
			CommonResponses: map[int]*spec3.Response{
				http.StatusUnauthorized: {ResponseProps: spec3.ResponseProps{Description: "Unauthorized"}},
			},
		})
	})
	built := map[string]func() (*spec3.OpenAPI, error){}
	for name, route := range routes {
		built[name] = func() (*spec3.OpenAPI, error) {
			document, err := whole()
			if err != nil {
				return nil, fmt.Errorf("building OpenAPI v3 of discovery: %w", err)
			}
			return partOf(document, route.path)
		}
	}
	return built
}

func securitySchemes() spec3.SecuritySchemes {
	props := bearerToken()
	return spec3.SecuritySchemes{bearer: {SecuritySchemeProps: spec3.SecuritySchemeProps{
		Type: props.Type, Name: props.Name, In: props.In, Description: props.Description,
	}}}
}

// partOf returns the document of one path, with the definitions to which it refers.
func partOf(whole *spec3.OpenAPI, path string) (*spec3.OpenAPI, error) {
	part := &spec3.OpenAPI{
		Version: whole.Version, Info: whole.Info,
		Paths:      &spec3.Paths{Paths: map[string]*spec3.Path{path: whole.Paths.Paths[path]}},
		Components: &spec3.Components{SecuritySchemes: whole.Components.SecuritySchemes, Schemas: map[string]*spec.Schema{}},
	}
	queue := []any{part.Paths}
	for len(queue) > 0 {
		text, err := json.Marshal(queue[0])
		if err != nil {
			return nil, fmt.Errorf("encoding the OpenAPI of %s: %w", path, err)
		}
		queue = queue[1:]
		for _, ref := range strings.Split(string(text), `"#/components/schemas/`)[1:] {
			name, _, _ := strings.Cut(ref, `"`)
			if part.Components.Schemas[name] == nil && whole.Components.Schemas[name] != nil {
				part.Components.Schemas[name] = whole.Components.Schemas[name]
				queue = append(queue, whole.Components.Schemas[name])
			}
		}
	}
	return part, nil
}

// tag returns the tag of the operations at a path.
func tag(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "apis" && len(parts) > 2:
		return groupName(parts[1]) + "_" + parts[2]
	case parts[0] == "apis" && len(parts) == 2:
		return groupName(parts[1])
	case parts[0] == "api" && len(parts) == 1:
		return "core"
	case parts[0] == "api":
		return "core_v1"
	case parts[0] == ".well-known":
		return "WellKnown"
	default:
		return parts[0]
	}
}
