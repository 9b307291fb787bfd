// Package chain is what every request passes before it is served: it is counted and timed,
// given an audit ID, kept from taking the process down, authenticated, held back when there
// are too many, and authorized.
package chain

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/garboard/garboard/services/apiserver/internal/answer"
	"github.com/garboard/garboard/services/apiserver/internal/authn"
	"github.com/garboard/garboard/services/apiserver/internal/authz"
	"github.com/garboard/garboard/services/apiserver/internal/rest"
)

// Requests in flight at most, Kubernetes' defaults. Those that last do not count.
const (
	maxReads  = 400
	maxWrites = 200
	// retryAfter is the seconds after which a client that was held back may come again.
	retryAfter = 1
)

// auditHeader names a request in logs, here and at the client.
const auditHeader = "Audit-ID"

// Config is what a chain is made of; all is required.
type Config struct {
	API           *rest.Handler
	Other         http.Handler // serves what is no resource
	Authenticator *authn.Authenticator
	Authorizer    authz.Authorizer
	Answers       *answer.Answerer
	Logger        *slog.Logger
	Metrics       *Metrics
}

// Chain is the server's outermost handler.
type Chain struct {
	Config
	reads, writes chan struct{}
}

// New makes the chain.
func New(cfg Config) *Chain {
	return &Chain{Config: cfg, reads: make(chan struct{}, maxReads), writes: make(chan struct{}, maxWrites)}
}

// ServeHTTP serves a request.
func (c *Chain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	id := r.Header.Get(auditHeader)
	if id == "" || len(id) > 64 {
		id = string(uuid.NewUUID())
	}
	w.Header().Set(auditHeader, id)
	target, isResource := c.API.Resolve(r)
	recorder := &recorder{ResponseWriter: w}
	done := c.Metrics.begin(r, target, isResource)
	defer func() { done(recorder.code(), time.Since(began)) }()
	defer c.rescue(recorder, r, id)
	c.serve(recorder, r, target, isResource)
}

// rescue turns a panic of a handler into an answer, so that the process lives on.
func (c *Chain) rescue(w *recorder, r *http.Request, id string) {
	problem := recover()
	if problem == nil {
		return
	}
	if err, ok := problem.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(problem) // A handler's way to cut the connection; the HTTP server knows it.
	}
	c.Logger.ErrorContext(r.Context(), "a handler panicked", "method", r.Method, "path", r.URL.Path, "audit", id,
		"panic", fmt.Sprint(problem), "stack", string(debug.Stack()))
	if w.status != 0 {
		panic(http.ErrAbortHandler) // The answer has begun: the client must not take it for whole.
	}
	c.Answers.Error(w, r, apierrors.NewInternalError(fmt.Errorf(
		"this request caused the apiserver to panic; look in its log for the audit ID %s", id)))
}

func (c *Chain) serve(w http.ResponseWriter, r *http.Request, target rest.Request, isResource bool) {
	result, ok, err := c.Authenticator.Authenticate(r)
	if !ok {
		c.Logger.DebugContext(r.Context(), "a request was not authenticated", "path", r.URL.Path, "err", err)
		c.Answers.Error(w, r, unauthorized())
		return
	}
	user := result.User
	r = r.WithContext(authn.WithUser(r.Context(), user))
	release, ok := c.enter(r, target.Long || isResource && target.Verb == "watch")
	if !ok {
		c.Metrics.dropped.Inc()
		c.Answers.Error(w, r, answer.TooManyRequests(retryAfter))
		return
	}
	defer release()
	if err := authz.Check(r.Context(), c.Authorizer, user, authz.FromRequest(r)); err != nil {
		c.Answers.Error(w, r, err)
		return
	}
	if isResource {
		c.API.Serve(w, r, target)
		return
	}
	c.Other.ServeHTTP(w, r)
}

// enter takes one of the places for requests in flight; false if there is none.
func (c *Chain) enter(r *http.Request, long bool) (release func(), ok bool) {
	if long {
		return func() {}, true
	}
	places := c.writes
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		places = c.reads
	}
	select {
	case places <- struct{}{}:
		return func() { <-places }, true
	default:
		return nil, false
	}
}

func unauthorized() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnauthorized, Reason: metav1.StatusReasonUnauthorized, Message: "Unauthorized",
	}}
}
