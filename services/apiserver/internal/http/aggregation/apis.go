package aggregation

import (
	"context"
	"crypto/tls"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"

	"github.com/garboard/garboard/services/apiserver/internal/fabric/endpoints"
	"github.com/garboard/garboard/services/apiserver/internal/http/discovery"
	"github.com/garboard/garboard/services/apiserver/internal/http/openapi"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/server/drain"
)

// Resolver finds where a Service is served.
type Resolver interface {
	// Resolve returns one ready endpoint of a Service's port. Its errors are API errors.
	Resolve(ctx context.Context, namespace, name string, port int32) (endpoints.Endpoint, error)
}

// Config configures APIs. All fields are required.
type Config struct {
	Resolver Resolver
	// Dial connects to endpoints.
	Dial Dial
	// Certificate returns the client certificate by which other servers know the apiserver. Its error says
	// why there is none.
	Certificate func() (*tls.Certificate, error)
	// Gate ends what is long-running when the server shuts down.
	Gate *drain.Gate
	// Encoder sends errors to clients.
	Encoder *response.Encoder
}

// APIs are the APIs that other servers serve. Any goroutine may use it.
type APIs struct {
	cfg Config

	mu      sync.Mutex // serializes the changes of current
	current atomic.Pointer[snapshot]
}

// snapshot is what is known at one time. It does not change.
type snapshot struct {
	served    map[schema.GroupVersion]*api
	discovery *discovery.Others
	openAPI   *openapi.Others
}

// api is what is known of one API.
type api struct {
	*remote          // nil if the APIService is faulty
	object           *apiregistrationv1.APIService
	fault            error // what is wrong with the APIService
	available        bool
	message          string            // why it is not
	discovery.Served                   // what its servers said last
	openAPI          map[string]string // the URL of its document of OpenAPI v3, by its name
	swagger          swagger
}

// New returns APIs that has none yet.
func New(cfg Config) *APIs {
	a := &APIs{cfg: cfg}
	a.current.Store(&snapshot{discovery: &discovery.Others{}, openAPI: &openapi.Others{}})
	return a
}

// Keep replaces the APIs by those that APIServices name. What is known of one whose spec has not changed stays
// known.
func (a *APIs) Keep(services []*apiregistrationv1.APIService) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, served := a.current.Load().served, map[schema.GroupVersion]*api{}
	for _, object := range services {
		if object.Spec.Service == nil {
			continue
		}
		gv := schema.GroupVersion{Group: object.Spec.Group, Version: object.Spec.Version}
		next := &api{object: object}
		if known := before[gv]; known != nil {
			next.Served, next.openAPI, next.swagger = known.Served, known.openAPI, known.swagger
			if apiequality.Semantic.DeepEqual(known.object.Spec, object.Spec) {
				next.remote, next.fault = known.remote, known.fault
			}
		}
		if next.remote == nil && next.fault == nil {
			next.remote, next.fault = newRemote(a.cfg, object)
		}
		condition := helper.GetAPIServiceConditionByType(object, apiregistrationv1.Available)
		next.available = condition != nil && condition.Status == apiregistrationv1.ConditionTrue
		if condition != nil {
			next.message = condition.Message
		}
		served[gv] = next
	}
	for gv, known := range before {
		if known.remote != nil && (served[gv] == nil || served[gv].remote != known.remote) {
			known.transport.CloseIdleConnections()
		}
	}
	a.store(served)
}

// describe records what the servers of an API say, unless it is no longer that of remote.
func (a *APIs) describe(of *remote, change func(*api)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	gv := schema.GroupVersion{Group: of.spec.Group, Version: of.spec.Version}
	known := a.current.Load().served
	if known[gv] == nil || known[gv].remote != of {
		return
	}
	served, next := maps.Clone(known), *known[gv]
	change(&next)
	served[gv] = &next
	a.store(served)
}

// store publishes a snapshot. The caller has the lock.
func (a *APIs) store(served map[schema.GroupVersion]*api) {
	next := &snapshot{served: served, discovery: &discovery.Others{}, openAPI: &openapi.Others{URLs: map[string]string{}}}
	for _, gv := range slices.SortedFunc(maps.Keys(served), func(x, y schema.GroupVersion) int { return strings.Compare(x.String(), y.String()) }) {
		one := served[gv]
		next.discovery.APIs = append(next.discovery.APIs, discovery.API{
			GroupVersion: gv, Served: one.Served,
			Priority: discovery.Priority{Group: one.object.Spec.GroupPriorityMinimum, Version: one.object.Spec.VersionPriority},
		})
		maps.Copy(next.openAPI.URLs, one.openAPI)
		if one.swagger.Swagger != nil {
			next.openAPI.Swaggers = append(next.openAPI.Swaggers, one.swagger.Swagger)
		}
	}
	before := a.current.Load()
	if apiequality.Semantic.DeepEqual(before.discovery, next.discovery) {
		next.discovery = before.discovery // so that documents are not built again
	}
	if maps.Equal(before.openAPI.URLs, next.openAPI.URLs) && slices.Equal(before.openAPI.Swaggers, next.openAPI.Swaggers) {
		next.openAPI = before.openAPI
	}
	a.current.Store(next)
}

// Discovery implements discovery.Source.
func (a *APIs) Discovery() *discovery.Others { return a.current.Load().discovery }

// OpenAPI implements openapi.Source.
func (a *APIs) OpenAPI() *openapi.Others { return a.current.Load().openAPI }

// Serves reports whether another server serves a path.
func (a *APIs) Serves(path string) bool { return a.current.Load().find(path) != nil }

// openAPIPath is where the documents of OpenAPI v3 are.
const openAPIPath = "/openapi/v3/"

// find returns what serves a path: of an API, or of its document of OpenAPI v3.
func (s *snapshot) find(path string) *api {
	if len(s.served) == 0 {
		return nil
	}
	name, document := strings.CutPrefix(path, openAPIPath)
	if !document {
		name = strings.TrimPrefix(path, "/")
	}
	var gv schema.GroupVersion
	switch parts := strings.SplitN(name, "/", 4); {
	case len(parts) >= 3 && parts[0] == "apis" && parts[1] != "":
		gv = schema.GroupVersion{Group: parts[1], Version: parts[2]}
	case len(parts) >= 2 && parts[0] == "api":
		gv.Version = parts[1]
	}
	one := s.served[gv]
	if one == nil || document && one.openAPI[name] == "" {
		return nil
	}
	return one
}

// ServeHTTP passes on a request for a path that another server serves.
func (a *APIs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	one := a.current.Load().find(r.URL.Path)
	if one == nil { // removed since the path was resolved
		a.cfg.Encoder.Error(w, r, response.NotFound())
		return
	}
	one.serve(w, r, a.cfg)
}
