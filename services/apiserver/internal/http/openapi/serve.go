package openapi

import (
	"bytes"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/munnerz/goautoneg"
)

// immutable is for how long a client may keep a document that it requested by its hash.
const immutable = 365 * 24 * time.Hour

// form is a media type that a client may ask for.
type form struct {
	subtype  string // below application/
	returned string
	protobuf bool
}

// forms returns the forms of the documents of OpenAPI v2 or v3, the preferred one first.
func forms(version string) []form {
	protobuf := "com.github.proto-openapi.spec." + version + ".v1.0+protobuf"
	return []form{
		{"json", "application/json", false},
		{protobuf, "application/" + protobuf, true},
		{"com.github.proto-openapi.spec." + version + "@v1.0+protobuf", "application/" + protobuf, true}, // deprecated
	}
}

// choose returns the form that a client prefers; false if it accepts none.
func choose(r *http.Request, among []form) (form, bool) {
	accept := r.Header.Get("Accept")
	if accept == "" {
		accept = "*/*"
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		for _, one := range among {
			if (clause.Type == "application" || clause.Type == "*") && (clause.SubType == one.subtype || clause.SubType == "*") {
				return one, true
			}
		}
	}
	return form{}, false
}

// serve serves a document: the index of OpenAPI v3, that of OpenAPI v2, or one of the server's own.
func (s *server) serve(w http.ResponseWriter, r *http.Request, index, v2 *document) {
	var err error
	switch at := r.URL.Path; {
	case at == v2Path:
		err = serveV2(w, r, v2)
	case at == v3Path:
		err = serve(w, r, index, forms("v3")[0], false)
	case s.v3[at] != nil:
		err = serveV3(w, r, s.v3[at])
	default:
		http.NotFound(w, r)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// serveV2 serves the document of OpenAPI v2, compressed if the client accepts that.
func serveV2(w http.ResponseWriter, r *http.Request, d *document) error {
	w.Header().Add("Vary", "Accept-Encoding")
	w.Header().Add("Vary", "Accept")
	chosen, ok := choose(r, forms("v2"))
	if !ok {
		w.WriteHeader(http.StatusNotAcceptable)
		return nil
	}
	return serve(w, r, d, chosen, acceptsGzip(r))
}

// serveV3 serves a document of OpenAPI v3. A client that asks for it by its hash may keep it.
func serveV3(w http.ResponseWriter, r *http.Request, d *document) error {
	w.Header().Set("Vary", "Accept")
	chosen, ok := choose(r, forms("v3"))
	if !ok {
		w.WriteHeader(http.StatusNotAcceptable)
		return nil
	}
	etag, _, err := d.version()
	if err != nil {
		return err
	}
	if hash := r.URL.Query().Get("hash"); hash != "" {
		if hash != etag {
			w.Header().Set("Content-Type", chosen.returned)
			w.Header().Set("Etag", strconv.Quote(etag))
			http.Redirect(w, r, hashed(strings.TrimPrefix(r.URL.Path, v3Path), etag), http.StatusMovedPermanently)
			return nil
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().Add(immutable).Format(time.RFC1123))
	}
	return serve(w, r, d, chosen, false)
}

// hashed returns the URL of a document of OpenAPI v3 with its hash.
func hashed(name, etag string) string {
	u := url.URL{Path: path.Join(v3Path, name), RawQuery: url.Values{"hash": {etag}}.Encode()}
	return u.String()
}

// serve serves one encoding of a document, or the news that the client already has it.
func serve(w http.ResponseWriter, r *http.Request, d *document, chosen form, compressed bool) error {
	etag, modified, err := d.version()
	if err != nil {
		return err
	}
	encoded, err := d.encoded(chosen.protobuf)
	if err != nil {
		return err
	}
	data := encoded.compressed
	if !compressed {
		if data, err = encoded.plain(); err != nil {
			return err
		}
	}
	if compressed {
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.Header().Set("Content-Type", chosen.returned)
	w.Header().Set("Etag", strconv.Quote(etag))
	http.ServeContent(w, r, "", modified, bytes.NewReader(data))
	return nil
}

// acceptsGzip reports whether the client accepts a compressed response. It does not for a range,
// which is one of the plain document.
func acceptsGzip(r *http.Request) bool {
	if r.Header.Get("Range") != "" {
		return false
	}
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, parameters, _ := strings.Cut(part, ";")
		if strings.TrimSpace(name) == "gzip" {
			quality, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(parameters), "q="), 64)
			return err != nil || quality > 0
		}
	}
	return false
}
