package openapi

import (
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

// containers returns the paths of subjects, by group and version. types has the Go types of what
// subresources hold.
func containers(subjects []subject, types *runtime.Scheme) []common.RouteContainer {
	var list []common.RouteContainer
	known := map[string]*container{}
	for _, one := range subjects {
		root := rootPath(one.GroupVersion())
		c := known[root]
		if c == nil {
			c = &container{root: root}
			known[root], list = c, append(list, c)
		}
		c.routes = append(c.routes, kindRoutes(one.Kind, types, one.definition != nil && one.definition.ReturnDeleted)...)
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
	var list []common.StatusCodeResponse
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

// kindRoutes returns the operations on a kind and its subresources. returnsDeleted says that DELETE
// returns the object instead of a Status.
func kindRoutes(kind *scheme.Kind, types *runtime.Scheme, returnsDeleted bool) []common.Route {
	b := routesOf{kind: kind, types: types, root: rootPath(kind.GroupVersion())}
	if kind.Namespaced && (!kind.Virtual || kind.Observed) {
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
	// Kubernetes documents a Status for a namespace, too, although it returns the namespace.
	if returnsDeleted && kind.GroupKind() != (schema.GroupKind{Kind: "Namespace"}) {
		deleted = obj
	}
	b.add(http.MethodGet, b.collection, "list", "list"+b.id(""), list, nil, forList(), 200)
	b.add(http.MethodPost, b.collection, "post", "create"+b.id(""), obj, obj, forCreate(), 200, 201, 202)
	if slices.Contains(kind.Verbs(), "deletecollection") {
		b.add(http.MethodDelete, b.collection, "deletecollection", "delete"+b.collectionID(), status, &metav1.DeleteOptions{}, merge(forList(), forDelete()), 200)
	}
	b.add(http.MethodGet, item, "get", "read"+b.id(""), obj, nil, nil, 200)
	b.add(http.MethodPut, item, "put", "replace"+b.id(""), obj, obj, forUpdate(), 200, 201)
	b.add(http.MethodPatch, item, "patch", "patch"+b.id(""), obj, &metav1.Patch{}, forPatch(), 200, 201)
	b.add(http.MethodDelete, item, "delete", "delete"+b.id(""), deleted, &metav1.DeleteOptions{}, forDelete(), 200, 202)
	for i := range kind.Subresources {
		b.subresource(item, &kind.Subresources[i])
	}
	return b.routes
}

// routesOf collects the routes of one kind.
type routesOf struct {
	kind             *scheme.Kind
	types            *runtime.Scheme
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
	b.routes = append(b.routes, b.route(method, path, action, operation, answer, request, params, codes...))
}

func (b *routesOf) route(method, path, action, operation string, answer, request any, params []common.Parameter, codes ...int) route {
	gvk := b.about
	if gvk.Empty() {
		gvk = b.kind.GroupVersionKind
	}
	r := route{
		method: method, path: b.root + path, operation: operation, action: action, gvk: gvk,
		description: action + " " + b.kind.Kind, produces: mediaTypes, request: request, response: answer, codes: codes,
		consumes: []string{"*/*"},
	}
	switch {
	case action == "list":
		r.produces = watchTypes
	case action == "patch":
		r.consumes = patchTypes
	case request != nil:
		r.consumes = mediaTypes
	}
	r.parameters = params
	if b.kind.Custom {
		r.adaptToCustom(b.kind, strings.ToLower(b.subresourceInfix))
	}
	params, r.parameters = r.parameters, nil
	r.parameters = append(r.parameters, pretty())
	if strings.Contains(path, "{name}") {
		r.parameters = append(r.parameters, inPath("name", "name of the "+b.kind.Kind))
	}
	if strings.Contains(path, "{namespace}") {
		r.parameters = append(r.parameters, inPath("namespace", "object name and auth scope, such as for teams and projects"))
	}
	r.parameters = append(r.parameters, params...)
	if r.request != nil {
		r.parameters = append(r.parameters, inBody(!b.kind.Custom || action != "delete"))
	}
	return r
}

// queries returns the options that clients give in the query of a subresource, beside those of its
// verb, by resource and subresource.
func queries() map[string]documented {
	return map[string]documented{
		"pods/attach": corev1.PodAttachOptions{}, "pods/exec": corev1.PodExecOptions{}, "pods/log": corev1.PodLogOptions{},
		"pods/portforward": corev1.PodPortForwardOptions{}, "pods/proxy": corev1.PodProxyOptions{},
		"services/proxy": corev1.ServiceProxyOptions{}, "nodes/proxy": corev1.NodeProxyOptions{},
	}
}

// subresource adds the operations of one subresource of the objects at item.
func (b *routesOf) subresource(item string, s *scheme.Subresource) {
	b.subresourceInfix = title1(s.Name)
	if s.Kind != b.kind.GroupVersionKind {
		b.about = s.Kind
	}
	defer func() { b.subresourceInfix, b.about = "", schema.GroupVersionKind{} }()
	path, body := item+"/"+s.Name, b.bodyOf(s)
	if s.Connects() {
		b.connection(path, s)
		return
	}
	for _, verb := range []string{"create", "get", "update", "patch"} {
		if !slices.Contains(s.Verbs, verb) {
			continue
		}
		switch verb {
		case "create":
			b.add(http.MethodPost, path, "post", "create"+b.id(""), body, body, forCreate(), 200, 201, 202)
		case "get":
			var params []common.Parameter
			if options := queries()[b.kind.Resource+"/"+s.Name]; options != nil {
				params = fromOptions(options)
			}
			b.add(http.MethodGet, path, "get", "read"+b.id(""), body, nil, params, 200)
		case "update":
			b.add(http.MethodPut, path, "put", "replace"+b.id(""), body, body, forUpdate(), 200, 201)
		case "patch":
			b.add(http.MethodPatch, path, "patch", "patch"+b.id(""), body, &metav1.Patch{}, forPatch(), 200, 201)
		}
	}
}

// connection adds the operations of a subresource that connects a client to something.
func (b *routesOf) connection(path string, s *scheme.Subresource) {
	if !s.Proxy {
		b.connect(path, "", s, http.MethodGet, http.MethodPost)
		return
	}
	methods := []string{
		http.MethodGet, http.MethodPut, http.MethodPost, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions,
	}
	b.connect(path, "", s, methods...)
	b.connect(path+"/{path}", "WithPath", s, methods...)
}

func (b *routesOf) connect(path, suffix string, s *scheme.Subresource, methods ...string) {
	params := fromOptions(queries()[b.kind.Resource+"/"+s.Name])
	kind := *b.kind
	kind.Kind = s.Kind.Kind // It is the options that have the name.
	for _, method := range methods {
		of := *b
		of.kind = &kind
		operation := "connect" + title1(groupName(b.kind.Group)) + title1(b.kind.Version) + title1(strings.ToLower(method)) + b.infix +
			b.kind.Kind + b.subresourceInfix + suffix
		r := of.route(method, path, "connect", operation, "", nil, params, 200)
		r.description = "connect " + method + " requests to " + s.Name + " of " + b.kind.Kind
		r.produces = []string{"*/*"}
		if suffix != "" {
			r.parameters = append(r.parameters, inPath("path", "path to the resource"))
		}
		b.routes = append(b.routes, r)
	}
}

// bodyOf returns a sample of what requests and responses of a subresource hold.
func (b *routesOf) bodyOf(s *scheme.Subresource) any {
	if s.LongRunning {
		return "" // a stream
	}
	if s.Kind == b.kind.GroupVersionKind {
		return objectOf(b.kind)
	}
	body, err := b.types.New(s.Kind)
	if err != nil { // The table knows the types of all.
		return ""
	}
	return body
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
