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

	"github.com/go-jose/go-jose/v4"

	"github.com/garboard/garboard/libs/tokenkey"
)

// Paths of the documents, Kubernetes' own.
const (
	ConfigurationPath = "/.well-known/openid-configuration"
	KeysPath          = "/openid/v1/jwks"
)

// maxAge is for how many seconds clients may cache the documents.
const maxAge = 3600

// Documents are the served documents.
type Documents struct{ configuration, keys []byte }

// metadata is the part of OpenID's provider metadata that Kubernetes serves.
type metadata struct {
	Issuer        string   `json:"issuer"`
	KeysURI       string   `json:"jwks_uri"`
	ResponseTypes []string `json:"response_types_supported"`
	SubjectTypes  []string `json:"subject_types_supported"`
	Algorithms    []string `json:"id_token_signing_alg_values_supported"`
}

// New builds the documents for tokens of issuer that are signed with one of keys. keysURI is the
// URL of the key set. If it is empty, the key set is at the API's own address, HOST:PORT.
func New(issuer, keysURI, address string, keys []tokenkey.Public) (*Documents, error) {
	if err := CheckURLs(issuer, keysURI); err != nil {
		return nil, err
	}
	if keysURI == "" {
		keysURI = (&url.URL{Scheme: "https", Host: address, Path: KeysPath}).String()
	}
	var set jose.JSONWebKeySet
	var algorithms []string
	for _, key := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Key, KeyID: key.ID, Algorithm: string(key.Algorithm), Use: "sig"})
		algorithms = append(algorithms, string(key.Algorithm))
	}
	slices.Sort(algorithms)
	configuration, err := json.Marshal(metadata{
		Issuer: issuer, KeysURI: keysURI, ResponseTypes: []string{"id_token"}, SubjectTypes: []string{"public"},
		Algorithms: slices.Compact(algorithms),
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the discovery document of service account tokens: %w", err)
	}
	encoded, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("encoding the keys of service account tokens: %w", err)
	}
	return &Documents{configuration: configuration, keys: encoded}, nil
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
	serve(w, "application/json", d.configuration)
}

// ServeKeys serves the key set.
func (d *Documents) ServeKeys(w http.ResponseWriter, _ *http.Request) {
	serve(w, "application/jwk-set+json", d.keys)
}

func serve(w http.ResponseWriter, mediaType string, data []byte) {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Cache-Control", "public, max-age="+strconv.Itoa(maxAge))
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data) // The client may have disconnected.
}
