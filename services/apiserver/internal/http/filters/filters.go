// Package filters is what every request passes through before it is served. In Kubernetes' order, a
// request gets an audit ID, is counted and timed, is kept from crashing the process, gets a
// deadline, gets the headers for scripts of other origins, is authenticated, is recorded in the audit
// log, takes the identity of the user that it impersonates, is turned away if too many are in flight,
// and is authorized.
package filters

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/impersonation"
	"github.com/garboard/garboard/services/apiserver/internal/http/logid"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest"
)

// auditHeader carries the ID that identifies a request in the logs of the server and of the client.
const auditHeader = "Audit-ID"

// Audit annotations with the decision on a request.
const (
	decisionNote = "authorization.k8s.io/decision"
	reasonNote   = "authorization.k8s.io/reason"
)

// Config configures a Chain. All fields except Audit, Limits, Timeout, Origins, GoawayChance and
// Trace are required.
type Config struct {
	API           *rest.Handler
	Other         http.Handler // serves paths that are not resources
	Authenticator *authn.Authenticator
	Authorizer    authz.Authorizer
	Encoder       *response.Encoder
	// Audit records requests in the audit log; nil records nothing.
	Audit *audit.Auditor
	// Limits bound the requests in flight.
	Limits Limits
	// Timeout bounds every request that is not long-running; DefaultTimeout if 0, no bound if
	// negative.
	Timeout time.Duration
	// Remote serves what other servers have; nil for nothing.
	Remote Remote
	// Origins are the origins whose scripts may use the API from a browser.
	Origins []*regexp.Regexp
	// GoawayChance is the fraction of HTTP/2 requests after which the client has to connect anew.
	GoawayChance float64
	Logger       *slog.Logger
	Metrics      *Metrics
	// Trace records spans of requests; it may be nil.
	Trace *trace.Recorder
}

// Remote passes requests on to other servers. They come before API and Other.
type Remote interface {
	http.Handler
	// Serves reports whether another server has what is at a path.
	Serves(r *http.Request) bool
}

// Chain is the server's outermost handler.
type Chain struct {
	Config
	limits limits
}

// New returns the chain.
func New(cfg Config) *Chain {
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	return &Chain{Config: cfg, limits: newLimits(cfg.Limits)}
}

// ServeHTTP serves a request.
func (c *Chain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	id := r.Header.Get(auditHeader)
	if id == "" {
		id = string(uuid.NewUUID())
	}
	w.Header().Set(auditHeader, id)
	r = r.WithContext(logid.With(r.Context(), id))
	target, isResource := c.API.Resolve(r)
	remote := c.Remote != nil && c.Remote.Serves(r)
	isResource = isResource && !remote
	recorder := &recorder{ResponseWriter: w}
	q := &request{
		Chain: c, w: recorder, r: r, id: id, began: began, target: target, isResource: isResource, remote: remote, wants: authz.FromRequest(r),
		what: labels(r, target, isResource),
	}
	q.long = isLong(c.API.Table, q.wants) || remote && isLongElsewhere(q.wants)
	done := c.Metrics.begin(r, q.what, q.long)
	defer func() {
		took := time.Since(began)
		done(recorder.code(), took)
		c.Logger.DebugContext(r.Context(), "answered a request", "method", r.Method, "path", r.URL.Path, "user", q.user.Name,
			"agent", r.UserAgent(), "code", recorder.code(), "took", took)
	}()
	defer c.rescue(recorder, r, id)
	// Over HTTP/2, the header becomes a GOAWAY frame.
	if c.GoawayChance > 0 && r.ProtoMajor == 2 && rand.Float64() < c.GoawayChance { //nolint:gosec // Nobody gains by guessing it.
		w.Header().Set("Connection", "close")
	}
	defer q.bound()()
	if q.admitOrigin() {
		return
	}
	q.authenticate()
}

// rescue turns a handler's panic into a response, so that the process survives.
func (c *Chain) rescue(w *recorder, r *http.Request, id string) {
	problem := recover()
	if problem == nil {
		return
	}
	if err, ok := problem.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(problem) // A handler cuts the connection; the HTTP server handles this.
	}
	c.Logger.ErrorContext(r.Context(), "a handler panicked", "method", r.Method, "path", r.URL.Path,
		"panic", fmt.Sprint(problem), "stack", string(debug.Stack()))
	if w.status != 0 {
		panic(http.ErrAbortHandler) // The response has begun and must not look complete to the client.
	}
	c.Encoder.Error(w, r, apierrors.NewInternalError(fmt.Errorf(
		"this request caused the apiserver to panic; look in its log for the audit ID %s", id)))
}

// request is a request on its way through the chain.
type request struct {
	*Chain
	w          *recorder
	r          *http.Request
	id         string
	began      time.Time
	target     rest.Request
	isResource bool
	remote     bool
	wants      authz.Attributes
	what       []string // the labels of its metrics
	long       bool     // long-running: it has no deadline
	invalid    error    // what is wrong with the timeout that its client asked for
	user       authn.User
	record     *audit.Record
}

func (q *request) authenticate() {
	result, ok, err := q.Authenticator.Authenticate(q.r)
	q.Metrics.authenticated(ok, err, time.Since(q.began))
	if q.r.ProtoMajor == 2 && (!ok || result.User.Unauthenticated()) {
		// HTTP/2 is costly, so unauthenticated clients may not keep such a connection, as in
		// Kubernetes since CVE-2023-44487.
		q.w.Header().Set("Connection", "close")
	}
	if !ok {
		q.refuse(result.Annotations, err)
		return
	}
	q.Authenticator.Strip(q.r.Header)
	for _, warning := range result.Warnings {
		if header, err := utilnet.NewWarningHeader(299, "-", warning); err == nil {
			q.w.Header().Add("Warning", header)
		}
	}
	q.user = result.User
	q.begin(&result.User)
	q.annotate(result.Annotations)
	if err := q.record.Received(); err != nil {
		q.Encoder.Error(q.w, q.r, apierrors.NewInternalError(err))
		return
	}
	q.w.record, q.w.auditStart = q.record, q.long
	defer q.complete()
	q.impersonate()
}

// annotate adds what authentication found to the audit log's record.
func (q *request) annotate(annotations map[string]string) {
	for key, value := range annotations {
		q.record.Annotate(key, value)
	}
}

// refuse responds to a request that could not be authenticated.
func (q *request) refuse(annotations map[string]string, err error) {
	q.Logger.DebugContext(q.r.Context(), "a request was not authenticated", "path", q.r.URL.Path, "err", err)
	q.begin(nil)
	q.annotate(annotations)
	// Only the start of the response is recorded.
	q.w.record, q.w.auditStart = q.record, true
	q.Encoder.Error(q.w, q.r, unauthorized())
}

// begin starts the audit log's record. user is nil if the request was not authenticated.
func (q *request) begin(user *authn.User) {
	q.record = q.Audit.Begin(q.r, audit.Request{ID: q.id, Received: q.began, User: user, Attributes: q.wants})
	if q.record != nil {
		q.r = q.r.WithContext(audit.With(q.r.Context(), q.record))
	}
}

// complete ends the audit log's record. It must be deferred.
func (q *request) complete() {
	if problem := recover(); problem != nil {
		q.record.Panicked(problem)
		panic(problem)
	}
	q.record.Complete(q.long)
}

func (q *request) impersonate() {
	acting, ok, err := impersonation.Resolve(q.r.Context(), q.r.Header, q.user, q.wants, q.Authorizer)
	if err != nil {
		q.Encoder.Error(q.w, q.r, err)
		return
	}
	if ok {
		q.Logger.DebugContext(q.r.Context(), "a user impersonates another", "user", q.user.Name, "as", acting.User.Name, "path", q.r.URL.Path)
		q.record.Impersonated(acting.User, acting.Constraint)
		q.user = acting.User
	}
	q.r = q.r.WithContext(authn.WithUser(q.r.Context(), q.user))
	q.enter()
}

func (q *request) enter() {
	leave, ok := q.slot()
	if !ok {
		q.Metrics.drop(q.requestKind(), q.what)
		q.Encoder.Error(q.w, q.r, response.TooManyRequests(retryAfter))
		return
	}
	defer leave()
	if err := cmp.Or(q.authorize(), q.invalid); err != nil {
		q.Encoder.Error(q.w, q.r, err)
		return
	}
	defer q.trace()()
	switch {
	case q.remote:
		q.Remote.ServeHTTP(q.w, q.r)
		return
	case q.isResource:
		q.API.Serve(q.w, q.r, q.target)
		return
	}
	q.Other.ServeHTTP(q.w, q.r)
}

// slot reserves a slot for a request that needs one, and returns false if none is free.
func (q *request) slot() (leave func(), ok bool) {
	switch {
	case !q.long:
		return q.limits.acquire(q.wants, q.user)
	case isSession(q.wants):
		return q.limits.begin(q.wants, q.user)
	}
	return func() {}, true
}

// requestKind returns the label of a request that was turned away.
func (q *request) requestKind() string {
	switch {
	case q.long:
		return "session"
	case isRead(q.wants):
		return "readOnly"
	}
	return "mutating"
}

// trace starts the span of a request; end ends it. Only the plane's own users and members of
// system:masters may decide through the header whether a request is traced.
func (q *request) trace() (end func()) {
	if !q.Trace.Traced() {
		return func() {}
	}
	name, attributes := q.wants.Verb+" "+q.wants.Path, map[string]string{
		"http.request.method": q.r.Method, "url.path": q.r.URL.Path, "user_agent.original": q.r.UserAgent(),
		"garboard.user": q.user.Name, "garboard.audit_id": q.id,
	}
	if q.isResource {
		name = q.wants.Verb + " " + q.wants.Resource
		if q.wants.Subresource != "" {
			name += "/" + q.wants.Subresource
		}
	}
	own := strings.HasPrefix(q.user.Name, "system:") && !strings.HasPrefix(q.user.Name, authn.ServiceAccountUser) && !q.user.Unauthenticated()
	ctx, finish := q.Trace.Begin(q.r.Context(), q.r.Header.Get(trace.Header), own || slices.Contains(q.user.Groups, authn.GroupMasters), name, attributes)
	q.r = q.r.WithContext(ctx)
	return func() { finish(q.w.code()) }
}

func (q *request) authorize() error {
	decision, reason, err := q.Authorizer.Authorize(q.r.Context(), q.user, q.wants)
	switch {
	case decision == authz.Allow:
		q.record.Annotate(decisionNote, "allow")
		q.record.Annotate(reasonNote, reason)
		return nil
	case err != nil:
		q.record.Annotate(reasonNote, "internal error")
		return apierrors.NewInternalError(err)
	}
	q.record.Annotate(decisionNote, "forbid")
	q.record.Annotate(reasonNote, reason)
	return authz.Forbidden(q.user, q.wants, reason)
}

func unauthorized() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnauthorized, Reason: metav1.StatusReasonUnauthorized, Message: "Unauthorized",
	}}
}
