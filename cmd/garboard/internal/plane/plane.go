// Package plane reads an apiserver's operational endpoints.
package plane

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	// maxAnswer bounds a response that is read whole; maxError bounds how much of an error response
	// is read.
	maxAnswer = 256 << 20
	maxError  = 64 << 10
)

// Get requests a path. The caller must close the response's body. A response other than 200 is an
// error, an API error if the apiserver sent one.
func Get(ctx context.Context, config *rest.Config, path string, query url.Values) (*http.Response, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating an HTTP client: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the server's address in the kubeconfig: %w", err)
	}
	target := base.JoinPath(path)
	target.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", path, err)
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking the apiserver for %s: %w", path, err)
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxError))
	if err != nil {
		return nil, fmt.Errorf("asking the apiserver for %s: %s, and then: %w", path, response.Status, err)
	}
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" {
		return nil, fmt.Errorf("asking the apiserver for %s: %w", path, &apierrors.StatusError{ErrStatus: status})
	}
	return nil, fmt.Errorf("asking the apiserver for %s: %s: %s", path, response.Status, strings.TrimSpace(string(body)))
}

// GetJSON requests a path and decodes the response into value.
func GetJSON(ctx context.Context, config *rest.Config, path string, value any) error {
	response, err := Get(ctx, config, path, nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(value); err != nil {
		return fmt.Errorf("reading the apiserver's response at %s: %w", path, err)
	}
	return nil
}

// Plain returns text from others without control characters, which a terminal would interpret.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}
