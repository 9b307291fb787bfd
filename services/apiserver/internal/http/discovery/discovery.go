// Package discovery tells clients which groups, versions and resources are served, at /api and
// /apis and below. It serves Kubernetes' plain form everywhere and, at those two paths, also the
// aggregated form, which holds everything in one document.
package discovery

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

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

// documents describe the kinds that are served, by path.
type documents struct {
	plain    map[string]runtime.Object
	together map[string]document
	err      error // set if the aggregated documents could not be encoded
}

// document is an encoded aggregated document.
type document struct {
	data []byte
	etag string
}

// New returns a handler that describes the table's kinds. It builds its documents when they are
// first requested, and again when the kinds have changed.
func New(table *scheme.Table, encoder *response.Encoder, addresses Addresses) *Handler {
	return &Handler{encoder: encoder, addresses: addresses, documents: scheme.Derive(table, describe)}
}

// describe builds the documents of kinds.
func describe(kinds []*scheme.Kind) documents {
	served := scheme.Served(kinds)
	h := documents{plain: map[string]runtime.Object{}, together: map[string]document{}}
	h.plain["/api"] = &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	all := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
	core := &apidiscoveryv2.APIGroupDiscoveryList{}
	named := &apidiscoveryv2.APIGroupDiscoveryList{}
	for _, versions := range groups(served) {
		group := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: versions[0].Group}}
		one := metav1.APIGroup{Name: versions[0].Group}
		for _, gv := range versions {
			kinds := kindsOf(served, gv)
			h.plain[path(gv)] = resourceList(gv, kinds)
			group.Versions = append(group.Versions, apidiscoveryv2.APIVersionDiscovery{
				Version: gv.Version, Resources: discoveries(kinds), Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent,
			})
			one.Versions = append(one.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version})
		}
		if one.Name == "" {
			core.Items = append(core.Items, group)
			continue
		}
		named.Items = append(named.Items, group)
		one.PreferredVersion = one.Versions[0]
		all.Groups = append(all.Groups, one)
		one.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		h.plain["/apis/"+one.Name] = &one
	}
	h.plain["/apis"] = all
	for path, list := range map[string]*apidiscoveryv2.APIGroupDiscoveryList{"/api": core, "/apis": named} {
		list.SetGroupVersionKind(aggregated)
		data, err := json.Marshal(list)
		if err != nil {
			h.err = fmt.Errorf("encoding the aggregated discovery of %s: %w", path, err)
			return h
		}
		sum := sha256.Sum256(data)
		h.together[path] = document{data: data, etag: `"` + strings.ToUpper(hex.EncodeToString(sum[:])) + `"`}
	}
	return h
}

// Serves reports whether a path belongs to discovery.
func (h *Handler) Serves(path string) bool {
	return h.documents.Get().plain[strings.TrimSuffix(path, "/")] != nil
}

// ServeHTTP serves a path for which Serves returns true.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, known := strings.TrimSuffix(r.URL.Path, "/"), h.documents.Get()
	plain := known.plain[path]
	switch {
	case known.err != nil:
		h.encoder.Error(w, r, known.err)
		return
	case plain == nil:
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
	// JSON only: clients have no decoder for the aggregated form in protobuf.
	w.Header().Set("Etag", together.etag)
	if r.Header.Get("If-None-Match") == together.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	contentType := fmt.Sprintf("%s;g=%s;v=%s;as=%s", runtime.ContentTypeJSON, aggregated.Group, aggregated.Version, aggregated.Kind)
	h.encoder.Bytes(w, r, http.StatusOK, contentType, together.data)
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

// groups returns the versions of each served group, the preferred one first: in the order of the table
// for a built-in group, by their names for another.
func groups(served []*scheme.Kind) [][]schema.GroupVersion {
	var found [][]schema.GroupVersion
	at, builtin := map[string]int{}, map[string]bool{}
	for _, kind := range served {
		gv := kind.GroupVersion()
		builtin[gv.Group] = builtin[gv.Group] || !kind.Custom
		i, known := at[gv.Group]
		if !known {
			i = len(found)
			at[gv.Group], found = i, append(found, nil)
		}
		if !slices.Contains(found[i], gv) {
			found[i] = append(found[i], gv)
		}
	}
	for _, versions := range found {
		if !builtin[versions[0].Group] {
			slices.SortFunc(versions, func(a, b schema.GroupVersion) int {
				return version.CompareKubeAwareVersionStrings(b.Version, a.Version)
			})
		}
	}
	return found
}

func kindsOf(served []*scheme.Kind, gv schema.GroupVersion) []*scheme.Kind {
	var kinds []*scheme.Kind
	for _, kind := range served {
		if kind.GroupVersion() == gv {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func path(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.String()
}
