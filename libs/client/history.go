package client

import (
	"context"
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/garboard/garboard/libs/history"
)

// historyWanted is the key under which a request's context has the place for the answer's history.
type historyWanted struct{}

// noting has every answer to a request with ctx note its history in to, unless that is nil.
func noting(ctx context.Context, to *history.ID) context.Context {
	if to == nil {
		return ctx
	}
	*to = history.ID{}
	return context.WithValue(ctx, historyWanted{}, to)
}

// historian notes of which history answers are, for those who want to know. The headers of an
// answer are not to be had from client-go otherwise.
type historian struct{ http.RoundTripper }

var _ utilnet.RoundTripperWrapper = historian{}

// WrappedRoundTripper is what carries the requests.
func (h historian) WrappedRoundTripper() http.RoundTripper { return h.RoundTripper }

// RoundTrip carries a request. Of the answers to one that was repeated the last one counts.
func (h historian) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := h.RoundTripper.RoundTrip(r)
	if to, ok := r.Context().Value(historyWanted{}).(*history.ID); ok {
		*to = history.ID{}
		if err == nil {
			// What cannot be understood is not known, as if it were not there.
			*to, _ = history.Parse(answer.Header.Get(history.Header))
		}
	}
	return answer, err
}
