// Package discovery tells clients which groups, versions and resources are served, at /api and
// /apis and below. It serves Kubernetes' plain form everywhere and, at those two paths, also the
// aggregated form, which holds everything in one document.
package discovery

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
)

// aggregated is the kind of the aggregated form, as the Accept header asks for it.
var aggregated = schema.GroupVersionKind{Group: "apidiscovery.k8s.io", Version: "v2", Kind: "APIGroupDiscoveryList"}

// Config configures a Handler. Table and Encoder are required.
type Config struct {
	// Table has the kinds that this server serves.
	Table *scheme.Table
	// Encoder sends the documents to clients.
	Encoder *response.Encoder
	// Addresses are where clients reach the server.
	Addresses Addresses
	// Priority returns the priority of a kind's group and version; all are the same if nil.
	Priority func(*scheme.Kind) Priority
	// Source knows what other servers serve; nothing if nil.
	Source Source
}

// Handler serves discovery.
type Handler struct {
	Config

	mu      sync.Mutex // held while documents are built
	current atomic.Pointer[known]
}

// known are documents, and a channel that is closed when the kinds are others.
type known struct {
	*documents
	changed <-chan struct{}
}

// New returns a handler that describes the kinds of a table and the APIs of other servers. It builds its
// documents when they are first requested, and those of a group again when what serves it has changed.
func New(cfg Config) *Handler {
	if cfg.Priority == nil {
		cfg.Priority = func(*scheme.Kind) Priority { return Priority{} }
	}
	if cfg.Source == nil {
		cfg.Source = &Others{}
	}
	h := &Handler{Config: cfg}
	h.current.Store(&known{documents: &documents{}})
	return h
}

// now returns the documents of what is served now.
func (h *Handler) now() *documents {
	if found := h.fresh(); found != nil {
		return found
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if found := h.fresh(); found != nil {
		return found
	}
	kinds, changed := h.Table.Follow()
	next := describe(kinds, h.Source.Discovery(), h.Priority, h.current.Load().documents)
	h.current.Store(&known{next, changed})
	return next
}

// fresh returns the documents if they tell of what is served now.
func (h *Handler) fresh() *documents {
	found := h.current.Load()
	if _, changed := h.Table.Follow(); found.changed != changed || found.others != h.Source.Discovery() {
		return nil
	}
	return found.documents
}

// Serves reports whether a path belongs to discovery.
func (h *Handler) Serves(path string) bool {
	return h.now().plain[strings.TrimSuffix(path, "/")] != nil
}

// ServeHTTP serves a path for which Serves returns true.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, known := strings.TrimSuffix(r.URL.Path, "/"), h.now()
	plain := known.plain[path]
	if plain == nil {
		h.Encoder.Error(w, r, response.NotFound())
		return
	}
	if r.Method != http.MethodGet && !anyMethod(plain) {
		w.Header().Set("Allow", http.MethodGet)
		h.Encoder.Error(w, r, response.MethodNotAllowed())
		return
	}
	together, offered := known.together[path]
	var kinds []schema.GroupVersionKind
	if offered {
		kinds = append(kinds, aggregated)
	}
	format, err := h.Encoder.Negotiate(r, kinds...)
	if err != nil {
		h.Encoder.Error(w, r, err)
		return
	}
	if format.As != aggregated {
		if versions, ok := plain.(*metav1.APIVersions); ok {
			copied := *versions
			copied.ServerAddressByClientCIDRs = h.Addresses.of(r)
			plain = &copied
		}
		h.Encoder.Object(w, r, http.StatusOK, format, plain)
		return
	}
	document, err := together()
	if err != nil {
		h.Encoder.Error(w, r, err)
		return
	}
	// JSON only: clients have no decoder for the aggregated form in protobuf.
	w.Header().Set("Etag", document.etag)
	if r.Header.Get("If-None-Match") == document.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	contentType := fmt.Sprintf("%s;g=%s;v=%s;as=%s", runtime.ContentTypeJSON, aggregated.Group, aggregated.Version, aggregated.Kind)
	h.Encoder.Bytes(w, r, http.StatusOK, contentType, document.data)
}

// anyMethod reports whether Kubernetes serves a document for every method, not for GET alone: its
// aggregator, which serves the groups, does not look at the method.
func anyMethod(plain runtime.Object) bool {
	switch plain.(type) {
	case *metav1.APIGroupList, *metav1.APIGroup:
		return true
	}
	return false
}
