package join

import (
	"net/http"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// swap is a transport whose connections show the certificate of the moment. What is under way on
// those of an earlier one goes on until it ends: watches are not torn off.
type swap struct {
	refused func(serial string) // called when a certificate was not taken
	taken   func(serial string) // called when it was

	mu      sync.Mutex
	current http.RoundTripper
	serial  string
	err     error // of the last request that was answered, or failed
}

// set has new requests sent as config says, with a certificate of a serial number.
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

// RoundTrip sends a request.
func (s *swap) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	current, serial := s.current, s.serial
	s.mu.Unlock()
	answer, err := current.RoundTrip(r)
	if r.Context().Err() == nil {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
	}
	if err == nil && answer.StatusCode == http.StatusUnauthorized {
		s.refused(serial)
	} else if err == nil {
		s.taken(serial)
	}
	return answer, err
}

// last is why the last request failed; nil if it was answered.
func (s *swap) last() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// WrappedRoundTripper is the transport of the moment, for who closes connections.
func (s *swap) WrappedRoundTripper() http.RoundTripper {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// clocks notes by how much the server's clock is ahead of this machine's.
type clocks struct {
	next http.RoundTripper
	note func(ahead time.Duration)
}

// RoundTrip sends a request.
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

// WrappedRoundTripper is the transport below.
func (c clocks) WrappedRoundTripper() http.RoundTripper { return c.next }

// serverAhead says by how much the clock of a server is ahead that answered between two times of
// this machine; the Date of answers is in whole seconds, and the answer's way counts for neither.
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
