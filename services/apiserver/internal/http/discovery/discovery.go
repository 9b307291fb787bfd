// Package discovery tells clients which groups, versions and resources are served, at /api and
// /apis and below. It serves Kubernetes' plain form everywhere and, at those two paths, also the
// aggregated form, which holds everything in one document.
package discovery

import (
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
)

// aggregated is the kind of the aggregated form, as the Accept header asks for it.
var aggregated = schema.GroupVersionKind{Group: "apidiscovery.k8s.io", Version: "v2", Kind: "APIGroupDiscoveryList"}

// Handler serves discovery.
type Handler struct {
	encoder   *response.Encoder
	addresses Addresses
	documents *scheme.Derived[documents]
}

// New returns a handler that describes the table's kinds. It builds its documents when they are
// first requested, and those of a group again when its kinds have changed.
func New(table *scheme.Table, encoder *response.Encoder, addresses Addresses) *Handler {
	var before documents
	return &Handler{encoder: encoder, addresses: addresses, documents: scheme.Derive(table, func(kinds []*scheme.Kind) documents {
		before = describe(kinds, before)
		return before
	})}
}

// Serves reports whether a path belongs to discovery.
func (h *Handler) Serves(path string) bool {
	return h.documents.Get().plain[strings.TrimSuffix(path, "/")] != nil
}

// ServeHTTP serves a path for which Serves returns true.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, known := strings.TrimSuffix(r.URL.Path, "/"), h.documents.Get()
	plain := known.plain[path]
	if plain == nil {
		h.encoder.Error(w, r, response.NotFound())
		return
	}
	if r.Method != http.MethodGet && !anyMethod(plain) {
		w.Header().Set("Allow", http.MethodGet)
		h.encoder.Error(w, r, response.MethodNotAllowed())
		return
	}
	together, offered := known.together[path]
	var kinds []schema.GroupVersionKind
	if offered {
		kinds = append(kinds, aggregated)
	}
	format, err := h.encoder.Negotiate(r, kinds...)
	if err != nil {
		h.encoder.Error(w, r, err)
		return
	}
	if format.As != aggregated {
		if versions, ok := plain.(*metav1.APIVersions); ok {
			copied := *versions
			copied.ServerAddressByClientCIDRs = h.addresses.of(r)
			plain = &copied
		}
		h.encoder.Object(w, r, http.StatusOK, format, plain)
		return
	}
	document, err := together()
	if err != nil {
		h.encoder.Error(w, r, err)
		return
	}
	// JSON only: clients have no decoder for the aggregated form in protobuf.
	w.Header().Set("Etag", document.etag)
	if r.Header.Get("If-None-Match") == document.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	contentType := fmt.Sprintf("%s;g=%s;v=%s;as=%s", runtime.ContentTypeJSON, aggregated.Group, aggregated.Version, aggregated.Kind)
	h.encoder.Bytes(w, r, http.StatusOK, contentType, document.data)
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
