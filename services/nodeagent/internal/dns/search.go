package dns

import (
	"context"
	"errors"

	mdns "github.com/miekg/dns"

	"github.com/garboard/garboard/services/nodeagent/internal/dns/wire"
)

// maxAliases is how many aliases an answer follows.
const maxAliases = 8

// maxHostSearches is how many search domains of the node are tried: as many as C libraries used to.
const maxHostSearches = 6

// alias appends the answer about a name in the zone that is an alias, at the end of a chain of them.
// An alias of a name in the zone without records is no record (as in CoreDNS).
func (s *Server) alias(ctx context.Context, a *ask, out []byte, chain []string, name *wire.Name, target string) ([]byte, error) {
	current := *name
	for range maxAliases {
		if sameName(&current, target) {
			break
		}
		chain = append(chain, target)
		next := wire.FromWire(target)
		if !s.inZone(&next) {
			return s.outside(ctx, a, out, chain, &next)
		}
		found, _ := s.zone.Lookup(&next, a.q.Type, s.own)
		if found.Alias == "" {
			if len(found.Addresses) == 0 {
				break
			}
			return s.found(ctx, a, out, chain, &next, found)
		}
		current, target = next, found.Alias
	}
	return s.empty(a, out, mdns.RcodeSuccess), nil
}

// outside appends the answer about an alias of a name outside the zone.
func (s *Server) outside(ctx context.Context, a *ask, out []byte, chain []string, name *wire.Name) ([]byte, error) {
	got, err := s.ask(ctx, a, name)
	if errors.Is(err, errLater) {
		return out, err
	}
	if err == nil && (got.Rcode() == mdns.RcodeSuccess || got.Rcode() == mdns.RcodeNameError) {
		return s.compose(a, out, chain, got, true), nil
	}
	return wire.Begin(out, &a.q, a.limit).Finish(mdns.RcodeServerFailure, false), nil
}

// search answers a question of a pod about a name in the first of its search domains, which does not
// exist, with what one of the others has. It returns nil if the answer stays that there is no such
// name.
func (s *Server) search(ctx context.Context, a *ask, out []byte) ([]byte, error) {
	labels, ok := s.searched(a)
	if !ok {
		return nil, nil
	}
	base := a.q.Name
	hosts := s.forward.Searches()
	hosts = hosts[:min(len(hosts), maxHostSearches)]
	for i := range 2 + len(hosts) + 1 {
		domain := &s.root
		switch {
		case i == 0:
			domain = &s.services
		case i == 1:
			domain = s.zone.Domain()
		case i-2 < len(hosts):
			domain = &hosts[i-2]
		}
		name, ok := base.Join(labels, domain)
		if !ok {
			continue
		}
		answer, err := s.try(ctx, a, out, &name)
		switch {
		case errors.Is(err, errUnknown):
			return nil, nil
		case err != nil:
			return nil, err
		case answer != nil:
			a.source = bySearch
			s.metrics.searches.Inc()
			return answer, nil
		}
	}
	return nil, nil
}

// searched reports whether a question comes from a resolver that walks through the search domains of
// a pod, and how many labels of the name are what the pod asks for.
func (s *Server) searched(a *ask) (labels int, ok bool) {
	if s.cfg.PodNamespace == nil {
		return 0, false
	}
	below, ok := a.q.Name.Below(&s.services)
	if !ok || below < 2 {
		return 0, false
	}
	namespace, ok := s.cfg.PodNamespace(a.client)
	if !ok || string(a.q.Name.Label(below-1)) != namespace {
		return 0, false
	}
	return below - 1, true
}

// errUnknown is the fault of a search when other servers cannot say whether there is a name.
var errUnknown = errors.New("other servers do not say whether there is such a name")

// try appends the answer about another name than the one that was asked for. It returns nil if there
// is no such name.
func (s *Server) try(ctx context.Context, a *ask, out []byte, name *wire.Name) ([]byte, error) {
	if s.inZone(name) {
		found, _ := s.zone.Lookup(name, a.q.Type, s.own)
		switch {
		case found.Missing:
			return nil, nil
		case found.Empty():
			return s.empty(a, out, mdns.RcodeSuccess), nil
		}
		return s.found(ctx, a, out, []string{name.Wire()}, name, found)
	}
	got, err := s.ask(ctx, a, name)
	switch {
	case errors.Is(err, errLater):
		return nil, err
	case err == nil && got.Rcode() == mdns.RcodeNameError:
		return nil, nil
	case err != nil || got.Rcode() != mdns.RcodeSuccess:
		return nil, errUnknown
	case got.Answers() == 0:
		return s.compose(a, out, nil, got, false), nil
	}
	return s.compose(a, out, []string{name.Wire()}, got, false), nil
}
