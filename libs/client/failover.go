package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// failoverPatience is after how long without an answer a server is asked whether it is well,
	// and failoverProbe how long it may take to say so. Both together are less than a leader has
	// to renew its lease.
	failoverPatience = 3 * time.Second
	failoverProbe    = 2 * time.Second
	// A server that failed is tried again after failoverPause, twice as long after each further
	// failure, at most failoverLongest; earlier only when no other is left.
	failoverPause   = time.Second
	failoverLongest = 30 * time.Second
)

// Failover gives config with its calls going to one of several apiservers, https URLs without a
// path, in place of config's own. A client begins with one chosen by chance, so that clients
// spread; it goes to another when a connection is refused or ends before the request was sent,
// when the server says that it is not ready or is shutting down, and when it does not answer and
// does not say either that it is well. It comes back to the first one when that is well again.
//
// No request is sent twice that may have been done: only those that read are. Watches stay where
// they were opened until they end.
//
// All clients that are made of the config share what is known of the servers. end ends what was
// started to ask servers whether they are well; it is called after the last request.
func Failover(config *rest.Config, servers []string, log *slog.Logger) (over *rest.Config, end func(), err error) {
	if config == nil {
		return nil, nil, errors.New("several apiservers: there is no configuration of who calls them")
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	var list []*apiserver
	for _, server := range servers {
		host, err := serverHost(server)
		if err != nil {
			return nil, nil, err
		}
		if !slices.ContainsFunc(list, func(known *apiserver) bool { return known.host == host }) {
			list = append(list, &apiserver{host: host})
		}
	}
	if len(list) == 0 {
		return nil, nil, errors.New("several apiservers: no address is set")
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return failover(config, list, log)
}

// failover is Failover with the servers in the order of preference.
func failover(config *rest.Config, list []*apiserver, log *slog.Logger) (*rest.Config, func(), error) {
	life, cancel := context.WithCancel(context.Background())
	servers := &apiservers{list: list, log: log, ended: life.Err, within: func(do func(context.Context) error) error { return do(life) }}
	over := rest.CopyConfig(config)
	over.Host, over.APIPath = "https://"+list[0].host, ""
	over.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &roundTripper{servers, rt} })
	end := func() {
		servers.mu.Lock() // None begins beside the wait.
		cancel()
		servers.mu.Unlock()
		servers.probes.Wait()
	}
	return over, end, nil
}

func serverHost(server string) (string, error) {
	parsed, err := url.Parse(strings.TrimSpace(server))
	switch {
	case err != nil:
		return "", fmt.Errorf("the apiserver's address %q: %w", server, err)
	case parsed.Scheme != "https" || parsed.Hostname() == "":
		return "", fmt.Errorf("the apiserver's address %q is not https://HOST:PORT", server)
	case strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" || parsed.User != nil || parsed.Fragment != "":
		return "", fmt.Errorf("the apiserver's address %q has more than https://HOST:PORT", server)
	case parsed.Port() == "":
		return net.JoinHostPort(parsed.Hostname(), "443"), nil
	}
	return parsed.Host, nil
}

// apiserver is one of the servers, and how it is doing.
type apiserver struct {
	host string
	// failures are how many there were since it last answered; it is tried again after until.
	failures int
	until    time.Time
	probing  bool
}

// apiservers are those that the clients of a program share.
type apiservers struct {
	log *slog.Logger
	// ended says that no more is to be started, and within does something until then.
	ended  func() error
	within func(do func(context.Context) error) error
	probes sync.WaitGroup

	mu   sync.Mutex
	list []*apiserver // in the order of preference
	used *apiserver   // that of the last answer
}

// candidates are the servers in the order in which a request tries them: those that are well
// first, then the one that failed the longest ago.
func (s *apiservers) candidates() []*apiserver {
	s.mu.Lock()
	defer s.mu.Unlock()
	ordered := slices.Clone(s.list)
	slices.SortStableFunc(ordered, func(a, b *apiserver) int {
		switch {
		case a.failures == 0 && b.failures == 0:
			return 0
		case a.failures == 0:
			return -1
		case b.failures == 0:
			return 1
		}
		return a.until.Compare(b.until)
	})
	return ordered
}

// due are the servers that failed and may be asked again.
func (s *apiservers) due() []*apiserver {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended() != nil {
		return nil
	}
	var due []*apiserver
	for _, server := range s.list {
		if server.failures > 0 && !server.probing && time.Now().After(server.until) {
			server.probing = true
			due = append(due, server)
			s.probes.Add(1)
		}
	}
	return due
}

// answered notes that a server is well.
func (s *apiservers) answered(server *apiserver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	back := server.failures > 0
	server.failures = 0
	if back || s.used != server {
		s.log.Info("using an apiserver", "server", server.host)
	}
	s.used = server
}

// well notes that a server has said that it is well, without being used for it.
func (s *apiservers) well(server *apiserver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	server.failures = 0
}

func (s *apiservers) failed(server *apiserver, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if server.failures == 0 {
		s.log.Warn("an apiserver cannot be used", "server", server.host, "err", why)
		// The next request must not look for the others in the same order as all other clients.
		if others := s.list[1:]; s.list[0] == server {
			rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
		}
	}
	server.failures++
	pause := min(failoverLongest, failoverPause<<min(server.failures-1, 10))
	server.until = time.Now().Add(pause/2 + rand.N(pause/2))
}

// roundTripper sends requests to the servers over one transport.
type roundTripper struct {
	servers *apiservers
	rt      http.RoundTripper
}

// WrappedRoundTripper is the transport below, for who looks for it.
func (t *roundTripper) WrappedRoundTripper() http.RoundTripper { return t.rt }

// RoundTrip sends a request to one server after the other, each at most once, until one takes it.
func (t *roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	for _, server := range t.servers.due() {
		go func() {
			defer t.servers.probes.Done()
			t.recheck(server)
		}()
	}
	candidates := t.servers.candidates()
	var errs []error
	for i, server := range candidates {
		last := i == len(candidates)-1
		out, err := addressed(r, server, i > 0)
		if err != nil {
			return nil, errors.Join(append(errs, err)...)
		}
		answer, sent, err := t.attempt(out, server)
		switch {
		case err == nil:
			reason := unserved(answer)
			if reason == nil {
				t.servers.answered(server)
				return answer, nil
			}
			t.servers.failed(server, reason)
			if last || !repeatable(r) {
				return answer, nil
			}
			_ = answer.Body.Close() // Read already.
		case r.Context().Err() != nil:
			// Whose end this was is not known; the next request asks elsewhere if it is the server's.
			return nil, err
		default:
			errs = append(errs, fmt.Errorf("apiserver %s: %w", server.host, err))
			t.servers.failed(server, err)
			if sent && !reads(r) || !repeatable(r) {
				return nil, errors.Join(errs...)
			}
		}
	}
	return nil, errors.Join(errs...)
}

// recheck asks a server that failed whether it is well again.
func (t *roundTripper) recheck(server *apiserver) {
	err := t.servers.within(func(ctx context.Context) error { return t.probe(ctx, server) })
	t.servers.mu.Lock()
	server.probing = false
	t.servers.mu.Unlock()
	if err != nil {
		t.servers.failed(server, err)
		return
	}
	t.servers.well(server)
}
