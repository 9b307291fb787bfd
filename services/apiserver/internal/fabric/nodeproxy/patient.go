package nodeproxy

import (
	"errors"
	"net/http"
	"time"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/bus/bushttp"
)

const (
	// reconnectTime is for how long an agent that is not there is called again: its connection to NATS takes a fraction
	// of it to come back.
	reconnectTime = 2 * time.Second
	// callPause is the time between two such calls.
	callPause = 100 * time.Millisecond
)

// patient calls an agent again that is not there, for reconnectTime. Nothing has taken the request, so that it is not
// carried out twice.
type patient struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper. A request with a body is sent once.
func (p patient) RoundTrip(r *http.Request) (*http.Response, error) {
	for until := time.Now().Add(reconnectTime); ; {
		response, err := p.RoundTripper.RoundTrip(r)
		again := errors.Is(err, bushttp.ErrNoServer) && (r.Body == nil || r.Body == http.NoBody) && time.Now().Before(until)
		if !again || !backoff.Sleep(r.Context(), callPause) {
			return response, err
		}
	}
}
