package aggregation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/garboard/garboard/services/apiserver/internal/fabric/endpoints"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/server/drain"
)

// discoveryTimeout bounds a request for what an API has, which clients ask of all APIs one after the other.
const discoveryTimeout = 5 * time.Second

// auditHeader carries the audit ID of a request, which the other server's audit log is to have too.
const auditHeader = "Audit-Id"

// serve passes a request on to a server of the API.
func (a *api) serve(w http.ResponseWriter, r *http.Request, cfg Config) {
	user, _ := authn.UserFrom(r.Context())
	location, ctx, err := a.locate(r)
	if err != nil {
		cfg.Encoder.Error(w, r, err)
		return
	}
	if strings.Count(strings.Trim(r.URL.Path, "/"), "/") == 2 {
		var late context.CancelFunc
		ctx, late = context.WithTimeout(ctx, discoveryTimeout)
		defer late()
	}
	Pass(w, r.WithContext(ctx), Way{To: location, User: user, Transport: a.transport, Gate: cfg.Gate, Responder: refusal{a.name, cfg.Encoder}})
}

// Way is how a request reaches another server. All fields are required.
type Way struct {
	To   *url.URL
	User authn.User // which the other server gets to know
	// Transport presents a front proxy's certificate.
	Transport *http.Transport
	// Gate ends what is long-running when the server shuts down.
	Gate *drain.Gate
	// Responder tells the client that the other server could not be reached.
	Responder proxy.ErrorResponder
}

// Pass passes a request on, upgraded connections included. The other server's audit log gets its audit ID.
func Pass(w http.ResponseWriter, r *http.Request, way Way) {
	request := r.Clone(r.Context())
	request.URL, request.Host = way.To, way.To.Host
	if id := w.Header().Get(auditHeader); id != "" {
		request.Header.Set(auditHeader, id)
	}
	var via http.RoundTripper = asUser{way.User, way.Transport}
	upgrade := httpstream.IsUpgradeRequest(r)
	if upgrade { // The proxy then writes the request itself.
		SetUser(request, way.User)
		via = way.Transport
	}
	handler := proxy.NewUpgradeAwareHandler(way.To, via, true, upgrade, way.Responder)
	handler.RejectForwardingRedirects = true
	serve := func(r *http.Request) { handler.ServeHTTP(w, r) }
	if verb := authz.FromRequest(r).Verb; upgrade || verb == "watch" || verb == "proxy" {
		way.Gate.Until(request, serve)
		return
	}
	serve(request)
}

// locate returns where a request is passed on to, and a context to dial with. Its errors are API errors.
func (a *api) locate(r *http.Request) (*url.URL, context.Context, error) {
	switch {
	case a.fault != nil:
		return nil, nil, apierrors.NewInternalError(fmt.Errorf("the APIService %s is faulty: %w", a.object.Name, a.fault))
	case !a.available:
		return nil, nil, unavailable(a.object.Name, errors.New(a.message))
	}
	endpoint, err := a.resolve(r.Context())
	if err != nil {
		return nil, nil, unavailable(a.object.Name, err)
	}
	location := &url.URL{Scheme: "https", Host: endpoint.Address, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.Query().Encode()}
	return location, endpoints.With(r.Context(), endpoint), nil
}

func unavailable(name string, err error) error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf("service unavailable: the APIService %s: %v", name, err))
}

// refusal tells a client that a server could not be reached.
type refusal struct {
	name    string
	encoder *response.Encoder
}

// Error implements proxy.ErrorResponder.
func (f refusal) Error(w http.ResponseWriter, r *http.Request, err error) {
	f.encoder.Error(w, r, unavailable(f.name, err))
}
