package api_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestClientsAreWarnedOfEndpoints requests Endpoints in every way, each with a warning, and their
// replacement, without one.
func TestClientsAreWarnedOfEndpoints(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	admin := s.Admin()
	const (
		warning   = `299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"`
		endpoints = "/api/v1/namespaces/default/endpoints"
		newer     = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
		json      = `{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"e"}}`
	)
	for _, step := range []struct {
		method, path, body string
		status             int
		warned             bool
	}{
		{http.MethodGet, endpoints, "", http.StatusOK, true},
		{http.MethodGet, "/api/v1/endpoints", "", http.StatusOK, true},
		{http.MethodGet, endpoints + "?watch=1&timeoutSeconds=6", "", http.StatusOK, true},
		{http.MethodGet, endpoints + "/e", "", http.StatusNotFound, true},
		{http.MethodPost, endpoints, json, http.StatusCreated, true},
		{http.MethodGet, endpoints + "/e", "", http.StatusOK, true},
		{http.MethodPut, endpoints + "/e", json, http.StatusOK, true},
		{http.MethodDelete, endpoints + "/e", "", http.StatusOK, true},
		{http.MethodDelete, endpoints, "", http.StatusOK, true},
		{http.MethodGet, newer, "", http.StatusOK, false},
		{http.MethodGet, "/api/v1/services", "", http.StatusOK, false},
	} {
		answer, body := s.Exchange(admin, step.method, step.path, step.body, nil)
		if answer.StatusCode != step.status {
			t.Errorf("%s %s: got %d %s", step.method, step.path, answer.StatusCode, body)
		}
		warnings := answer.Header.Values("Warning")
		want := []string(nil)
		if step.warned {
			want = []string{warning}
		}
		if !slices.Equal(warnings, want) {
			t.Errorf("%s %s: got warnings %q, want %q", step.method, step.path, warnings, want)
		}
	}
}
