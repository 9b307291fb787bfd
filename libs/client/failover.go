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

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/backoff"
)

const (
	// failoverPatience is how long a server may leave a request unanswered before it is probed, and
	// failoverProbe how long the probe may take. Their sum is less than a leader has to renew its
	// lease.
	failoverPatience = 3 * time.Second
	failoverProbe    = 2 * time.Second
	// A server that failed is retried after failoverPause, doubled with each further failure up to
	// failoverLongest. It is retried earlier only when no other server is left.
	failoverPause   = time.Second
	failoverLongest = 30 * time.Second
)

// Failover returns a copy of config whose calls go to one of several apiservers, https URLs without
// a path, in place of config's own. A client begins with a random one, so that clients spread. It
// moves to another when a connection is refused or ends before the request was sent, and when the
// server says that it is not ready or is shutting down. It also moves when the server neither
// answers nor passes a health probe. It returns to the first one when that is healthy again.
//
// A request that may have been executed is not sent again, unless it only reads. Watches stay where
// they were opened until they end.
//
// All clients created from the result share their knowledge of the servers. end stops the health
// probes; it must be called after the last request.
func Failover(config *rest.Config, servers []string, log *slog.Logger) (over *rest.Config, end func(), err error) {
	if config == nil {
		return nil, nil, errors.New("several apiservers: no client configuration is set")
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

// failover is Failover with the servers in order of preference.
func failover(config *rest.Config, list []*apiserver, log *slog.Logger) (*rest.Config, func(), error) {
	life, cancel := context.WithCancel(context.Background())
	servers := &apiservers{list: list, log: log, ended: life.Err, within: func(do func(context.Context) error) error { return do(life) }}
	over := rest.CopyConfig(config)
	over.Host, over.APIPath = "https://"+list[0].host, ""
	over.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &roundTripper{servers, rt} })
	end := func() {
		servers.mu.Lock() // No probe may start beside the wait.
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

// apiserver is one of the servers and its state.
type apiserver struct {
	host string
	// failures counts failures since its last answer; it is retried after until, a delay later.
	failures int
	until    time.Time
	delays   wait.Backoff
	probing  bool
}

// apiservers is shared by the clients of a program.
type apiservers struct {
	log *slog.Logger
	// ended returns an error once no more work may start; within runs work until then.
	ended  func() error
	within func(do func(context.Context) error) error
	probes sync.WaitGroup

	mu   sync.Mutex
	list []*apiserver // in order of preference
	used *apiserver   // the server of the last answer
}

// candidates returns the servers in the order in which a request tries them: healthy ones first,
// then the ones that failed, by the time of their next retry.
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

// due returns the servers that failed and may be probed again, and marks them as being probed.
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

// answered records that a server answered a request.
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

// well records that a server passed a health probe; it does not become the used one.
func (s *apiservers) well(server *apiserver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	server.failures = 0
}

func (s *apiservers) failed(server *apiserver, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if server.failures == 0 {
		server.delays = backoff.Doubling(failoverPause/2, failoverLongest/2, 1)
		s.log.Warn("could not use an apiserver", "server", server.host, "err", why)
		// The next request must not try the others in the same order as all other clients do.
		if others := s.list[1:]; s.list[0] == server {
			rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
		}
	}
	server.failures++
	server.until = time.Now().Add(server.delays.Step())
}

// roundTripper sends requests to the servers over one transport.
type roundTripper struct {
	servers *apiservers
	rt      http.RoundTripper
}

// WrappedRoundTripper returns the underlying transport, for client-go's unwrapping.
func (t *roundTripper) WrappedRoundTripper() http.RoundTripper { return t.rt }

// RoundTrip tries one server after the other, each at most once, until one serves the request.
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
			_ = answer.Body.Close() // It was read already.
		case r.Context().Err() != nil:
			// The client or the server may have ended it; if the server did, the next request goes
			// elsewhere.
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

// recheck probes a server that failed.
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
