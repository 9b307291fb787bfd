package client

import (
	"context"
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/garboard/garboard/libs/fabric"
)

// historyWanted is the context key for the destination of a response's history.
type historyWanted struct{}

// noting makes every response to a request with ctx store its history in to, unless to is nil.
func noting(ctx context.Context, to *fabric.History) context.Context {
	if to == nil {
		return ctx
	}
	*to = fabric.History{}
	return context.WithValue(ctx, historyWanted{}, to)
}

// historian records the histories of responses for callers that ask for them. client-go offers no
// other access to response headers.
type historian struct{ http.RoundTripper }

var _ utilnet.RoundTripperWrapper = historian{}

// WrappedRoundTripper returns the underlying transport.
func (h historian) WrappedRoundTripper() http.RoundTripper { return h.RoundTripper }

// RoundTrip executes a request. If client-go repeats a request, the last response counts.
func (h historian) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := h.RoundTripper.RoundTrip(r)
	if to, ok := r.Context().Value(historyWanted{}).(*fabric.History); ok {
		*to = fabric.History{}
		if err == nil {
			// A header that cannot be parsed counts as missing.
			*to, _ = fabric.ParseHistory(answer.Header.Get(fabric.HistoryHeader))
		}
	}
	return answer, err
}
