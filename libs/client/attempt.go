package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// maxNotice bounds how much is read of a response in which a server says that it does not serve.
const maxNotice = 4 << 10

// notices returns the messages of an apiserver, Kubernetes' or ours, that has not started up or is
// shutting down. A request that got one of them was not executed.
func notices() []string {
	return []string{"apiserver is shutting down", "apiserver hasn't been fully initialized"}
}

var errSilent = errors.New("it neither answers nor reports that it is healthy")

// reads reports whether a request only reads, so that repeating it is harmless.
func reads(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
}

// repeatable reports whether a request's body can be sent again.
func repeatable(r *http.Request) bool {
	return r.Body == nil || r.Body == http.NoBody || r.GetBody != nil
}

// addressed returns the request addressed to a server; again means that its body was sent before.
func addressed(r *http.Request, to *apiserver, again bool) (*http.Request, error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.Host = "https", to.host, to.host
	if again && r.Body != nil && r.Body != http.NoBody {
		body, err := r.GetBody()
		if err != nil {
			return nil, fmt.Errorf("sending a request again: %w", err)
		}
		out.Body = body
	}
	return out, nil
}

// attempt sends a request to a server. If it fails, sent reports whether the server may have
// executed the request.
func (t *roundTripper) attempt(r *http.Request, server *apiserver) (answer *http.Response, sent bool, err error) {
	var connecting, connected atomic.Bool
	ctx, cancel := context.WithCancelCause(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { connecting.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}))
	waiting, answered := context.WithCancel(r.Context())
	watched := make(chan struct{})
	patience := time.AfterFunc(failoverPatience, func() {
		defer close(watched)
		t.watch(waiting, server, func() { cancel(errSilent) })
	})
	answer, err = t.rt.RoundTrip(r.WithContext(ctx))
	answered()
	if !patience.Stop() {
		<-watched
	}
	cause := context.Cause(ctx)
	silent := errors.Is(cause, errSilent)
	switch {
	case err != nil:
		cancel(nil)
		// A transport that reports connections, as HTTP's does, sends nothing before it has one.
		sent = !unsent(err) && (connected.Load() || !connecting.Load())
		if silent {
			err = errSilent // The transport's error is a cancellation, which only watch caused.
		}
		return nil, sent, err
	case silent:
		// It answered at the last moment, and its response can no longer be read.
		_ = answer.Body.Close()
		return nil, true, errSilent
	}
	// The response body needs the context until it is closed.
	answer.Body = closing(answer.Body, func() { cancel(nil) })
	return answer, false, nil
}

// watch gives up a request when its server is not healthy. A response to the request ends ctx.
func (t *roundTripper) watch(ctx context.Context, server *apiserver, giveUp func()) {
	ticker := time.NewTicker(failoverPatience)
	defer ticker.Stop()
	for {
		if err := t.probe(ctx, server); err != nil && ctx.Err() == nil {
			giveUp()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// probe asks a server whether it is healthy. Any response counts, except one that says it is not
// ready: not every user may read /readyz.
func (t *roundTripper) probe(ctx context.Context, server *apiserver) error {
	ctx, cancel := context.WithTimeout(ctx, failoverProbe)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+server.host+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("asking an apiserver whether it is healthy: %w", err)
	}
	answer, err := t.rt.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("asking an apiserver whether it is healthy: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if _, err := io.Copy(io.Discard, io.LimitReader(answer.Body, maxNotice)); err != nil {
		return fmt.Errorf("asking an apiserver whether it is healthy: %w", err)
	}
	if answer.StatusCode >= http.StatusInternalServerError || answer.StatusCode == http.StatusTooManyRequests {
		return fmt.Errorf("it is not ready: %s", answer.Status)
	}
	return nil
}

// unsent reports whether err occurred before any of the request was sent.
func unsent(err error) bool {
	var op *net.OpError
	var certificate *tls.CertificateVerificationError
	return errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &op) && op.Op == "dial" || errors.As(err, &certificate)
}

// unserved returns the reason why the server did not serve the request; nil if it did. The response
// body can still be read afterwards.
func unserved(answer *http.Response) error {
	if answer.StatusCode != http.StatusTooManyRequests && answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
		return nil
	}
	start, err := io.ReadAll(io.LimitReader(answer.Body, maxNotice))
	rest := answer.Body
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), &failing{err, rest}), rest}
	for _, notice := range notices() {
		if strings.Contains(string(start), notice) {
			return fmt.Errorf("%s: %s", answer.Status, notice)
		}
	}
	return nil
}

// failing returns an error, if there is one, and otherwise reads from the underlying reader.
type failing struct {
	err  error
	from io.Reader
}

func (f *failing) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return f.from.Read(p)
}

// closing calls done when body is closed. If body is writable, as that of an upgraded connection
// is, the result is too.
func closing(body io.ReadCloser, done func()) io.ReadCloser {
	ended := &closer{ReadCloser: body, done: done}
	if writer, ok := body.(io.Writer); ok {
		return struct {
			*closer
			io.Writer
		}{ended, writer}
	}
	return ended
}

type closer struct {
	io.ReadCloser
	done func()
}

func (c *closer) Close() error {
	defer c.done()
	return c.ReadCloser.Close()
}
