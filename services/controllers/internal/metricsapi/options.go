package metricsapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"

	"k8s.io/client-go/rest"
)

// Options name a metrics server that is not behind the plane's API. The zero value names none.
type Options struct {
	// Server is its URL: of the scheme https, or http if it needs no token.
	Server string
	// CAFile is a PEM file with the authorities of its certificate; the system's when empty.
	CAFile string
	// TokenFile holds the token with which it is called, read again when it changes; none when empty.
	TokenFile string
}

// Check returns everything that is wrong. It does no I/O.
func (o Options) Check() error {
	if o.Server == "" {
		if o.CAFile != "" || o.TokenFile != "" {
			return errors.New("the certificates or the token of a metrics server are set, but no --horizontal-pod-autoscaler-metrics-server")
		}
		return nil
	}
	server, err := url.Parse(o.Server)
	switch {
	case err != nil:
		return fmt.Errorf("--horizontal-pod-autoscaler-metrics-server: %w", err)
	case server.Scheme != "https" && server.Scheme != "http" || server.Host == "" || server.User != nil ||
		server.RawQuery != "" || server.Fragment != "":
		return fmt.Errorf("--horizontal-pod-autoscaler-metrics-server is %q, must be a URL with the scheme https or http, a host, and at most a path",
			server.Redacted())
	case server.Scheme == "http" && (o.TokenFile != "" || o.CAFile != ""):
		return errors.New("a metrics server at an http URL gets no token and shows no certificate: use https")
	}
	return nil
}

// config returns how to reach the server, or, without one, a copy of the given configuration.
func (o Options) config(plane *rest.Config) (*rest.Config, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if o.Server == "" && plane == nil {
		return nil, errors.New("creating a client of metrics: no address is set")
	}
	var config *rest.Config
	if o.Server == "" {
		config = rest.CopyConfig(plane)
	} else {
		config = &rest.Config{
			Host: o.Server, BearerTokenFile: o.TokenFile, TLSClientConfig: rest.TLSClientConfig{CAFile: o.CAFile},
			UserAgent: "kube-controller-manager/horizontal-pod-autoscaler",
		}
	}
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	config.Timeout, config.QPS = patience, -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next} })
	return config, nil
}

// bounded refuses answers that are too long, or that take too long to read.
type bounded struct{ next http.RoundTripper }

var (
	errTooLong = fmt.Errorf("the answer is longer than %d MiB", maxAnswer>>20)
	errTooFar  = errors.New("the answer has a number with an exponent of more than two digits")
	// farExponent finds the value of a JSON object that is such a number, as a text or not: what parses quantities
	// would compute all its digits.
	farExponent = regexp.MustCompile(`:\s*"?[+-]?[0-9.]+[eE][+-]?[0-9]{3}`)
)

// RoundTrip passes a request on, and reads the answer.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	_ = answer.Body.Close() // What matters has been read.
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the answer: %w", err)
	case len(data) > maxAnswer:
		return nil, errTooLong
	case farExponent.Match(data):
		return nil, errTooFar
	}
	answer.Body = io.NopCloser(bytes.NewReader(data))
	return answer, nil
}
