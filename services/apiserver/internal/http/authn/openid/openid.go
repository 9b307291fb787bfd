// Package openid serves what other programs need to verify service account tokens by themselves:
// the OpenID Connect discovery document and the key set that it names.
package openid

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/garboard/garboard/libs/tokenkey"
)

// Paths of the documents, Kubernetes' own.
const (
	ConfigurationPath = "/.well-known/openid-configuration"
	KeysPath          = "/openid/v1/jwks"
)

// Keys returns the keys that verify tokens, and for how long clients may cache them.
type Keys func() ([]tokenkey.Public, time.Duration)

// Documents are the served documents.
type Documents struct {
	issuer, keysURI string
	keys            Keys
}

// metadata is the part of OpenID's provider metadata that Kubernetes serves.
type metadata struct {
	Issuer        string   `json:"issuer"`
	KeysURI       string   `json:"jwks_uri"`
	ResponseTypes []string `json:"response_types_supported"`
	SubjectTypes  []string `json:"subject_types_supported"`
	Algorithms    []string `json:"id_token_signing_alg_values_supported"`
}

// New returns the documents for tokens of issuer that are signed with one of keys. keysURI is the
// URL of the key set. If it is empty, the key set is at the API's own address, HOST:PORT.
func New(issuer, keysURI, address string, keys Keys) (*Documents, error) {
	if err := CheckURLs(issuer, keysURI); err != nil {
		return nil, err
	}
	if keysURI == "" {
		keysURI = (&url.URL{Scheme: "https", Host: address, Path: KeysPath}).String()
	}
	return &Documents{issuer: issuer, keysURI: keysURI, keys: keys}, nil
}

// CheckIssuer returns an error if issuer is not a URL.
func CheckIssuer(issuer string) error {
	if _, err := url.Parse(issuer); err != nil {
		return fmt.Errorf("reading the issuer URL: %w", err)
	}
	return nil
}

// CheckURLs returns an error if the documents cannot be served for these URLs. OpenID requires
// https URLs, so an issuer that is valid for tokens may be refused here.
func CheckURLs(issuer, keysURI string) error {
	parsed, err := url.Parse(issuer)
	switch {
	case err != nil:
		return fmt.Errorf("reading the issuer URL: %w", err)
	case parsed.Scheme != "https":
		return fmt.Errorf("issuer URL must use https scheme, got: %s", issuer)
	case parsed.RawQuery != "":
		return fmt.Errorf("issuer URL may not include a query, got: %s", issuer)
	case parsed.Fragment != "":
		return fmt.Errorf("issuer URL may not include a fragment, got: %s", issuer)
	}
	if keysURI == "" {
		return nil
	}
	if parsed, err = url.Parse(keysURI); err != nil {
		return fmt.Errorf("reading the URL of the keys: %w", err)
	}
	if parsed.Scheme != "https" {
		return fmt.Errorf("jwksURI requires https scheme, parsed as: %v", parsed)
	}
	return nil
}

// ServeConfiguration serves the discovery document.
func (d *Documents) ServeConfiguration(w http.ResponseWriter, _ *http.Request) {
	keys, age := d.keys()
	algorithms := make([]string, 0, len(keys))
	for _, key := range keys {
		algorithms = append(algorithms, string(key.Algorithm))
	}
	slices.Sort(algorithms)
	serve(w, "application/json", age, metadata{
		Issuer: d.issuer, KeysURI: d.keysURI, ResponseTypes: []string{"id_token"}, SubjectTypes: []string{"public"},
		Algorithms: slices.Compact(algorithms),
	})
}

// ServeKeys serves the key set.
func (d *Documents) ServeKeys(w http.ResponseWriter, _ *http.Request) {
	keys, age := d.keys()
	set := jose.JSONWebKeySet{Keys: make([]jose.JSONWebKey, 0, len(keys))}
	for _, key := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Key, KeyID: key.ID, Algorithm: string(key.Algorithm), Use: "sig"})
	}
	serve(w, "application/jwk-set+json", age, set)
}

func serve(w http.ResponseWriter, mediaType string, age time.Duration, document any) {
	data, err := json.Marshal(document)
	if err != nil {
		http.Error(w, "encoding the document of service account tokens: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Cache-Control", "public, max-age="+strconv.FormatInt(int64(max(age, 0)/time.Second), 10))
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data) // The client may have disconnected.
}
