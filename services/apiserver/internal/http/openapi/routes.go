package openapi

import (
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/garboard/garboard/libs/scheme"
)

// mediaTypes are the media types of objects.
var mediaTypes = []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}

// watchTypes are the media types of a response that may be a watch.
var watchTypes = append(slices.Clip(mediaTypes), "application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")

// patchTypes are the media types of a patch.
var patchTypes = []string{
	"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml",
}

// container holds the paths of one group and version.
type container struct {
	root   string
	routes []common.Route
}

// RootPath returns the path above all routes.
func (c container) RootPath() string { return c.root }

// PathParameters returns nil: each route has its own parameters.
func (c container) PathParameters() []common.Parameter { return nil }

// Routes returns the operations.
func (c container) Routes() []common.Route { return c.routes }

// containers returns the paths of all groups and versions, or of only one.
func containers(kinds []*scheme.Kind, only *schema.GroupVersion) []common.RouteContainer {
	var list []common.RouteContainer
	for _, gv := range groupVersions(kinds) {
		if only != nil && gv != *only {
			continue
		}
		c := container{root: rootPath(gv)}
		for _, kind := range kinds {
			if kind.GroupVersion() == gv {
				c.routes = append(c.routes, kindRoutes(kind)...)
			}
		}
		list = append(list, c)
	}
	return list
}

// route is one operation. Its methods implement the interface of kube-openapi's builders.
type route struct {
	method, path, operation, description string
	action                               string
	gvk                                  schema.GroupVersionKind
	parameters                           []common.Parameter
	consumes, produces                   []string
	request, response                    any
	codes                                []int
}

func (r route) Method() string                 { return r.method }
func (r route) Path() string                   { return r.path }
func (r route) OperationName() string          { return r.operation }
func (r route) Parameters() []common.Parameter { return r.parameters }
func (r route) Description() string            { return r.description }
func (r route) Consumes() []string             { return r.consumes }
func (r route) Produces() []string             { return r.produces }
func (r route) RequestPayloadSample() any      { return r.request }
func (r route) ResponsePayloadSample() any     { return r.response }

func (r route) Metadata() map[string]any {
	return map[string]any{"x-kubernetes-action": r.action, gvkExtension: gvkValue(r.gvk)}
}

func (r route) StatusCodeResponses() []common.StatusCodeResponse {
	list := []common.StatusCodeResponse{response{http.StatusUnauthorized, "Unauthorized", ""}}
	for _, code := range r.codes {
		list = append(list, response{code, http.StatusText(code), r.response})
	}
	return list
}

// response is one response of an operation.
type response struct {
	code    int
	message string
	model   any
}

func (r response) Code() int       { return r.code }
func (r response) Message() string { return r.message }
func (r response) Model() any      { return r.model }

// kindRoutes returns the operations on a kind and its subresources.
func kindRoutes(kind *scheme.Kind) []common.Route {
	b := routesOf{kind: kind, root: rootPath(kind.GroupVersion())}
	if kind.Namespaced && !kind.Virtual {
		b.add(http.MethodGet, "/"+kind.Resource, "list", "list"+b.id("ForAllNamespaces"), listOf(kind), nil, forList(), 200)
	}
	b.collection = "/" + kind.Resource
	if kind.Namespaced {
		b.collection, b.infix = "/namespaces/{namespace}/"+kind.Resource, "Namespaced"
	}
	if kind.Observed {
		b.add(http.MethodGet, b.collection, "list", "list"+b.id(""), listOf(kind), nil, forList(), 200)
		b.add(http.MethodGet, b.collection+"/{name}", "get", "read"+b.id(""), objectOf(kind), nil, nil, 200)
		return b.routes
	}
	if kind.Virtual {
		b.add(http.MethodPost, b.collection, "post", "create"+b.id(""), objectOf(kind), objectOf(kind), forCreate(), 200, 201, 202)
		return b.routes
	}
	obj, list := objectOf(kind), listOf(kind)
	item := b.collection + "/{name}"
	status := &metav1.Status{}
	var deleted any = status
	switch kind.Resource {
	case "persistentvolumeclaims", "pods", "resourcequotas", "serviceaccounts", "services", "storageclasses":
		deleted = obj // these return the deleted object
	}
	b.add(http.MethodGet, b.collection, "list", "list"+b.id(""), list, nil, forList(), 200)
	b.add(http.MethodPost, b.collection, "post", "create"+b.id(""), obj, obj, forCreate(), 200, 201, 202)
	if kind.Kind != "Namespace" {
		b.add(http.MethodDelete, b.collection, "deletecollection", "delete"+b.collectionID(), status, &metav1.DeleteOptions{}, merge(forList(), forDelete()), 200)
	}
	b.add(http.MethodGet, item, "get", "read"+b.id(""), obj, nil, nil, 200)
	b.add(http.MethodPut, item, "put", "replace"+b.id(""), obj, obj, forUpdate(), 200, 201)
	b.add(http.MethodPatch, item, "patch", "patch"+b.id(""), obj, &metav1.Patch{}, forPatch(), 200, 201)
	b.add(http.MethodDelete, item, "delete", "delete"+b.id(""), deleted, &metav1.DeleteOptions{}, forDelete(), 200, 202)
	for _, name := range kind.Subresources {
		b.subresource(item+"/"+name, name)
	}
	return b.routes
}

// routesOf collects the routes of one kind.
type routesOf struct {
	kind             *scheme.Kind
	root             string
	collection       string
	infix            string
	routes           []common.Route
	about            schema.GroupVersionKind // the kind of a subresource that has its own
	subresourceInfix string
}

// id returns the middle and the end of an operation's identifier: CoreV1NamespacedPod.
func (b *routesOf) id(suffix string) string {
	return title1(groupName(b.kind.Group)) + title1(b.kind.Version) + b.infix + b.kind.Kind + b.subresourceInfix + suffix
}

// collectionID is id for the operation deletecollection.
func (b *routesOf) collectionID() string {
	return title1(groupName(b.kind.Group)) + title1(b.kind.Version) + "Collection" + b.infix + b.kind.Kind
}

func title1(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

func (b *routesOf) add(method, path, action, operation string, answer, request any, params []common.Parameter, codes ...int) {
	gvk := b.about
	if gvk.Empty() {
		gvk = b.kind.GroupVersionKind
	}
	r := route{
		method: method, path: b.root + path, operation: operation, action: action, gvk: gvk,
		description: action + " " + b.kind.Kind, produces: mediaTypes, request: request, response: answer, codes: codes,
		consumes: []string{"*/*"},
	}
	r.parameters = append(r.parameters, pretty())
	if strings.Contains(path, "{name}") {
		r.parameters = append(r.parameters, inPath("name", "name of the "+b.kind.Kind))
	}
	if strings.Contains(path, "{namespace}") {
		r.parameters = append(r.parameters, inPath("namespace", "object name and auth scope, such as for teams and projects"))
	}
	r.parameters = append(r.parameters, params...)
	switch {
	case action == "list":
		r.produces = watchTypes
	case action == "patch":
		r.consumes = patchTypes
	case request != nil:
		r.consumes = mediaTypes
	}
	if b.kind.Custom {
		r.produces, r.consumes = customTypes(r.produces), customTypes(r.consumes)
	}
	if request != nil {
		r.parameters = append(r.parameters, inBody())
	}
	b.routes = append(b.routes, r)
}

// subresource adds the operations of one subresource.
func (b *routesOf) subresource(path, name string) {
	b.subresourceInfix = title1(name)
	defer func() { b.subresourceInfix, b.about = "", schema.GroupVersionKind{} }()
	switch name {
	case "binding":
		body := &corev1.Binding{}
		b.about = corev1.SchemeGroupVersion.WithKind("Binding")
		b.add(http.MethodPost, path, "post", "create"+b.id(""), body, body, forCreate(), 200, 201, 202)
	case "eviction":
		body := &policyv1.Eviction{}
		b.about = policyv1.SchemeGroupVersion.WithKind("Eviction")
		b.add(http.MethodPost, path, "post", "create"+b.id(""), body, body, forCreate(), 200, 201, 202)
	case "token":
		body := &authenticationv1.TokenRequest{}
		b.about = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")
		b.add(http.MethodPost, path, "post", "create"+b.id(""), body, body, forCreate(), 200, 201, 202)
	case "log":
		b.add(http.MethodGet, path, "get", "read"+b.id(""), "", nil, fromOptions(corev1.PodLogOptions{}), 200)
	case "finalize":
		b.add(http.MethodPut, path, "put", "replace"+b.id(""), objectOf(b.kind), objectOf(b.kind), forUpdate(), 200, 201)
	case "scale":
		b.about = autoscalingv1.SchemeGroupVersion.WithKind("Scale")
		b.readWrite(path, &autoscalingv1.Scale{})
	default:
		b.readWrite(path, objectOf(b.kind))
	}
}

// readWrite adds the operations of a subresource whose requests and responses have the type of
// body.
func (b *routesOf) readWrite(path string, body any) {
	b.add(http.MethodGet, path, "get", "read"+b.id(""), body, nil, nil, 200)
	b.add(http.MethodPut, path, "put", "replace"+b.id(""), body, body, forUpdate(), 200, 201)
	b.add(http.MethodPatch, path, "patch", "patch"+b.id(""), body, &metav1.Patch{}, forPatch(), 200, 201)
}

// merge joins lists of parameters, keeping each name once.
func merge(lists ...[]common.Parameter) []common.Parameter {
	var joined []common.Parameter
	seen := map[string]bool{}
	for _, list := range lists {
		for _, p := range list {
			if !seen[p.Name()] {
				seen[p.Name()] = true
				joined = append(joined, p)
			}
		}
	}
	return joined
}
