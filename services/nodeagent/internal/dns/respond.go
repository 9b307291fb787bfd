package dns

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"runtime/debug"
	"time"

	mdns "github.com/miekg/dns"

	"github.com/garboard/garboard/services/nodeagent/internal/dns/forward"
	"github.com/garboard/garboard/services/nodeagent/internal/dns/records"
	"github.com/garboard/garboard/services/nodeagent/internal/dns/wire"
)

// zoneTTL is how long the records of the zone hold, in seconds: as with kubeadm's CoreDNS.
const zoneTTL = 30

// ask is a question with what its answer depends on.
type ask struct {
	q      wire.Question
	client netip.Addr
	tcp    bool
	// limit is how many bytes the answer may have.
	limit int
	// size is the size of the question.
	size  int
	began time.Time
	// wait allows the answer to wait for other servers.
	wait bool
	// source is what has answered.
	source source
}

// errLater is the fault of an answer that would have to wait for other servers, and may not.
var errLater = errors.New("the answer needs other servers")

// read reads a message. It returns false if nothing more is to be done: out then has the answer, if
// the message deserves one.
func (s *Server) read(a *ask, message, out []byte) ([]byte, bool) {
	a.began, a.size, a.source, a.wait = time.Now(), len(message), byServer, false
	err := a.q.Parse(message)
	if errors.Is(err, wire.ErrDrop) {
		return out, false
	}
	a.limit = a.q.Size
	if a.tcp {
		a.limit = wire.MaxTCP
	}
	s.metrics.request(a)
	switch {
	case err == nil:
		return out, true
	case errors.Is(err, wire.ErrOpcode):
		return s.fail(a, out, mdns.RcodeNotImplemented), false
	case errors.Is(err, wire.ErrVersion):
		return s.fail(a, out, mdns.RcodeBadVers), false
	}
	return s.fail(a, out, mdns.RcodeFormatError), false
}

// respond appends the answer to a question. It returns errLater if that would have to wait and may
// not. A panic leaves the question without an answer.
func (s *Server) respond(ctx context.Context, a *ask, out []byte) (answer []byte, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			s.metrics.panics.Inc()
			s.log.Error("answering a DNS question panicked", "err", cause, "name", a.q.Name.String(), "stack", string(debug.Stack()))
			answer, err = out, nil
		}
	}()
	answer, err = s.answer(ctx, a, out)
	if err == nil {
		s.observe(a, answer[len(out):])
	}
	return answer, err
}

// observe records an answer.
func (s *Server) observe(a *ask, answer []byte) {
	if len(answer) >= wire.HeaderSize {
		s.metrics.response(a, int(answer[3]&0xf), len(answer), time.Since(a.began).Seconds())
	}
}

// fail appends an answer that has a code and nothing else, and records it.
func (s *Server) fail(a *ask, out []byte, rcode int) []byte {
	answer := wire.Begin(out, &a.q, a.limit).Finish(rcode, false)
	s.observe(a, answer[len(out):])
	return answer
}

// answer appends the answer to a question.
func (s *Server) answer(ctx context.Context, a *ask, out []byte) ([]byte, error) {
	q := &a.q
	if s.forward.Looped(&q.Name, q.Type) || !s.cfg.Clients(a.client) || q.Class != wire.ClassINET || refused(q.Type) {
		return wire.Begin(out, q, a.limit).Finish(mdns.RcodeRefused, false), nil
	}
	if q.Type == mdns.TypeANY {
		b := wire.Begin(out, q, a.limit)
		b.Text(wire.AskedName, mdns.TypeHINFO, zoneTTL, "RFC8482", "")
		return b.Finish(mdns.RcodeSuccess, false), nil
	}
	if s.inZone(&q.Name) {
		found, _ := s.zone.Lookup(&q.Name, q.Type, s.own)
		if found.Missing {
			return s.missing(ctx, a, out)
		}
		a.source = byZone
		return s.found(ctx, a, out, nil, &q.Name, found)
	}
	if q.Type == mdns.TypePTR {
		if names := s.zone.Reverse(&q.Name); len(names) > 0 {
			a.source = byZone
			b := wire.Begin(out, q, a.limit)
			s.write(b, q.Type, wire.AskedName, records.Answer{Names: names})
			return b.Finish(mdns.RcodeSuccess, true), nil
		}
	}
	got, err := s.ask(ctx, a, &q.Name)
	switch {
	case errors.Is(err, errLater):
		return out, err
	case err != nil:
		return wire.Begin(out, q, a.limit).Finish(mdns.RcodeServerFailure, false), nil
	}
	return got.AppendTo(out, q, a.limit), nil
}

// refused reports whether the server answers no questions of a type: zone transfers, and types that
// no record has.
func refused(kind uint16) bool {
	return kind == 0 || kind == mdns.TypeOPT || kind >= 128 && kind < mdns.TypeANY
}

// inZone reports whether a name is the zone's, and not of a stub domain within it.
func (s *Server) inZone(name *wire.Name) bool {
	_, ok := name.Below(s.zone.Domain())
	return ok && !s.forward.Stub(name, s.zone.Domain())
}

// missing answers a question about a name that is not in the zone.
func (s *Server) missing(ctx context.Context, a *ask, out []byte) ([]byte, error) {
	a.source = byZone
	if !s.zone.Synced() {
		return wire.Begin(out, &a.q, a.limit).Finish(mdns.RcodeServerFailure, false), nil
	}
	if answer, err := s.search(ctx, a, out); err != nil || answer != nil {
		return answer, err
	}
	a.source = byZone
	return s.empty(a, out, mdns.RcodeNameError), nil
}

// empty appends an answer without records to a question about a name in the zone.
func (s *Server) empty(a *ask, out []byte, rcode int) []byte {
	b := wire.Begin(out, &a.q, a.limit)
	b.Authority(false, s.apex(&a.q.Name), s.authority())
	return b.Finish(rcode, true)
}

// apex returns where the name of the zone is in an answer to a question about a name in it.
func (s *Server) apex(name *wire.Name) int {
	return wire.AskedName + len(name.Bytes()) - len(s.zone.Domain().Bytes())
}

func (s *Server) authority() wire.SOA { return wire.SOA{TTL: zoneTTL, Serial: s.zone.Serial()} }

// found appends the answer that was found in the zone for a name: that which was asked for, or the
// end of a chain of aliases.
func (s *Server) found(ctx context.Context, a *ask, out []byte, chain []string, name *wire.Name, found records.Answer) ([]byte, error) {
	if found.Alias != "" && a.q.Type != mdns.TypeCNAME {
		return s.alias(ctx, a, out, chain, name, found.Alias)
	}
	b := wire.Begin(out, &a.q, a.limit)
	owner := wire.AskedName
	for _, target := range chain {
		owner = b.Name(owner, mdns.TypeCNAME, zoneTTL, target)
	}
	before := b.Answered()
	if found.Authority {
		b.Authority(true, s.apex(&a.q.Name), s.authority())
	} else {
		s.write(b, a.q.Type, owner, found)
	}
	if b.Answered() == before && !b.Truncated() {
		return s.empty(a, out, mdns.RcodeSuccess), nil
	}
	return b.Finish(mdns.RcodeSuccess, true), nil
}

// write writes the records that a name in the zone has.
func (s *Server) write(b *wire.Builder, kind uint16, owner int, found records.Answer) {
	if n := len(found.Addresses); n > 0 {
		// Clients tend to use the first address.
		first := 0
		if n > 1 {
			first = rand.IntN(n)
		}
		for i := range n {
			b.Address(owner, zoneTTL, found.Addresses[(first+i)%n])
		}
	}
	if found.Alias != "" {
		b.Name(owner, mdns.TypeCNAME, zoneTTL, found.Alias)
	}
	for _, name := range found.Names {
		b.Name(owner, kind, zoneTTL, name)
	}
	if found.Text != "" {
		b.Text(owner, mdns.TypeTXT, records.VersionTTL, found.Text)
	}
	if len(found.Services) == 0 {
		return
	}
	targets := make([]int, len(found.Services))
	for i, service := range found.Services {
		targets[i] = b.Service(owner, zoneTTL, service.Weight, service.Port, service.Target)
	}
	for i, service := range found.Services {
		if i > 0 && service.Target == found.Services[i-1].Target {
			continue
		}
		for _, addr := range service.Addresses {
			b.Extra(targets[i], zoneTTL, addr)
		}
	}
}

// ask returns the answer of other servers about a name, with the type that is asked for.
func (s *Server) ask(ctx context.Context, a *ask, name *wire.Name) (forward.Answer, error) {
	query := forward.Query{Name: *name, Type: a.q.Type, DNSSEC: a.q.DNSSEC, CheckingDisabled: a.q.CheckingDisabled()}
	a.source = byCache
	if answer, ok := s.forward.Cached(&query); ok {
		return answer, nil
	}
	a.source = byForward
	if !a.wait {
		return forward.Answer{}, errLater
	}
	return s.forward.Resolve(ctx, &query)
}

// compose appends the answer of other servers about the end of a chain of aliases. It is authoritative
// if the chain begins with an alias of the zone.
func (s *Server) compose(a *ask, out []byte, chain []string, got forward.Answer, authoritative bool) []byte {
	b := wire.Begin(out, &a.q, a.limit)
	ttl, owner := got.TTL(zoneTTL), wire.AskedName
	for _, target := range chain {
		owner = b.Name(owner, mdns.TypeCNAME, ttl, target)
	}
	// What is not an answer would not be this zone's.
	got.Write(b, !authoritative)
	return b.Finish(mdns.RcodeSuccess, authoritative)
}

// sameName reports whether a name has a wire form.
func sameName(name *wire.Name, text string) bool { return bytes.Equal(name.Bytes(), []byte(text)) }

// busy returns the answer that a question gets when too many wait for other servers.
func (s *Server) busy(a *ask) []byte {
	s.metrics.rejected.Inc()
	a.source = byServer
	return s.fail(a, nil, mdns.RcodeServerFailure)
}

// clone returns a question that may wait, and does not refer to the message that it came in.
func (a *ask) clone() *ask {
	waiting := *a
	waiting.q, waiting.wait = *a.q.Clone(), true
	return &waiting
}
