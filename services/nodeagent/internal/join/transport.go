package join

import (
	"errors"
	"net/http"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
)

// swap is a transport whose connections present the current certificate. Requests in flight on
// connections of an earlier one continue: watches are not broken off.
type swap struct {
	refused func(serial string) // called when a certificate was rejected
	taken   func(serial string) // called when it was accepted
	doubted func(serial string) // called when NATS let it in no more, and nothing else answered

	mu      sync.Mutex
	current http.RoundTripper
	serial  string
	err     error // of the last request that was answered or failed
}

// set sends new requests according to config, with the certificate that has this serial number.
func (s *swap) set(config *rest.Config, serial string) error {
	next, err := rest.TransportFor(config)
	if err != nil {
		return err
	}
	s.mu.Lock()
	last := s.current
	s.current, s.serial = next, serial
	s.mu.Unlock()
	if last != nil {
		utilnet.CloseIdleConnectionsFor(last)
	}
	return nil
}

// RoundTrip sends a request with the current certificate.
func (s *swap) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	current := s.current
	s.mu.Unlock()
	return current.RoundTrip(r)
}

// noting returns a transport that notes what becomes of the requests with the current certificate,
// whichever way next sends them.
func (s *swap) noting(next http.RoundTripper) http.RoundTripper { return noting{s, next} }

type noting struct {
	*swap
	next http.RoundTripper
}

// RoundTrip sends a request and notes how it ends.
func (n noting) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	serial := n.serial
	n.mu.Unlock()
	answer, err := n.next.RoundTrip(r)
	if r.Context().Err() == nil {
		n.mu.Lock()
		n.err = err
		n.mu.Unlock()
	}
	switch {
	case errors.Is(err, bus.ErrNotLetIn):
		n.doubted(serial)
	case err != nil:
	case answer.StatusCode == http.StatusUnauthorized:
		n.refused(serial)
	default:
		n.taken(serial)
	}
	return answer, err
}

// WrappedRoundTripper returns the wrapped transport.
func (n noting) WrappedRoundTripper() http.RoundTripper { return n.next }

// last returns the error of the last request; nil if it was answered.
func (s *swap) last() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// WrappedRoundTripper returns the current transport, for closing its connections.
func (s *swap) WrappedRoundTripper() http.RoundTripper {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// clocks reports how far the server's clock is ahead of this machine's.
type clocks struct {
	next http.RoundTripper
	note func(ahead time.Duration)
}

// RoundTrip sends a request and compares the clocks.
func (c clocks) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := time.Now()
	answer, err := c.next.RoundTrip(r)
	if err == nil {
		if ahead, ok := serverAhead(answer, sent, time.Now()); ok {
			c.note(ahead)
		}
	}
	return answer, err
}

// WrappedRoundTripper returns the wrapped transport.
func (c clocks) WrappedRoundTripper() http.RoundTripper { return c.next }

// serverAhead returns how far a server's clock is ahead, given its response and this machine's
// times before and after it. The Date of responses is in whole seconds; neither that nor the
// network delay counts as a difference.
func serverAhead(answer *http.Response, sent, received time.Time) (time.Duration, bool) {
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return 0, false
	}
	switch {
	case date.Add(time.Second).Before(sent):
		return date.Add(time.Second).Sub(sent), true
	case date.After(received):
		return date.Sub(received), true
	}
	return 0, true
}
