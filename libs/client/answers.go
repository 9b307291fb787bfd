package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

// maxAnswer bounds how much of a response is quoted, in bytes.
const maxAnswer = 1 << 10

// Answers asks the apiserver over HTTPS whether it is ready. It returns nil if so, and otherwise
// the reason, for people. Only ctx bounds the wait.
func Answers(ctx context.Context, config *rest.Config) error {
	over, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("reaching the API: %w", err)
	}
	defer over.CloseIdleConnections()
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return fmt.Errorf("reaching the API: %w", err)
	}
	base.Path = strings.TrimSuffix(base.Path, "/") + "/readyz"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.String(), nil)
	if err != nil {
		return fmt.Errorf("reaching the API: %w", err)
	}
	response, err := over.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("the API at %s does not answer in time", base.Host)
		}
		return fmt.Errorf("the API at %s does not answer: %w", base.Host, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("the API at %s does not answer: %w", base.Host, err)
	}
	if response.StatusCode == http.StatusOK {
		return nil
	}
	return fmt.Errorf("the API at %s is not ready: %s: %s", base.Host, response.Status, strings.Join(strings.Fields(string(body)), " "))
}
