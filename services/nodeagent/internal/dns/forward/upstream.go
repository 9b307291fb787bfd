package forward

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/garboard/garboard/services/nodeagent/internal/dns/wire"
)

// How long questions to servers take at most.
const (
	// attemptTime is how long one server may take before the next is asked, too.
	attemptTime = time.Second
	// askTime is how long all take together: less than the 5 s after which resolvers give up.
	askTime = 4 * time.Second
	// probeTime is how long the answer to a health check may take.
	probeTime = 2 * time.Second
)

// maxAttempts is how often servers are asked one question over time, at least: packets get lost.
const maxAttempts = 3

// maxFailures is how many questions in a row a server may leave without an answer before it is down.
const maxFailures = 2

// upstream is a server that is asked.
type upstream struct {
	addr netip.AddrPort
	text string
	// failures counts the latest questions without an answer.
	failures atomic.Int32
	// probing reports whether a health check is under way.
	probing atomic.Bool
	// mark is a random name. If this process is asked for it, the server forwards to this process.
	mark    wire.Name
	looping atomic.Bool
}

func newUpstream(addr netip.AddrPort) *upstream {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	mark, _ := wire.ParseName(hex.EncodeToString(random[:8]) + "." + hex.EncodeToString(random[8:]))
	return &upstream{addr: addr, text: addr.String(), mark: mark}
}

// up reports whether the server answers.
func (u *upstream) up() bool { return u.failures.Load() < maxFailures && !u.looping.Load() }

// group is the servers for some names, in the order in which they are asked.
type group []*upstream

// order returns the servers in the order in which to ask them: those that are down last, those that
// loop never.
func (g group) order() []*upstream {
	order := make([]*upstream, 0, len(g))
	for _, u := range g {
		if u.up() {
			order = append(order, u)
		}
	}
	for _, u := range g {
		if !u.up() && !u.looping.Load() {
			order = append(order, u)
		}
	}
	return order
}

// down reports whether no server of the group answers.
func (g group) down() bool { return !slices.ContainsFunc(g, (*upstream).up) }

// errNoServers is the fault of a question for which there is no server.
var errNoServers = errors.New("no DNS server to ask")

// attempt is the end of one server's turn.
type attempt struct {
	server *upstream
	answer *dns.Msg
	err    error
}

// ask asks the servers of a group, one after another, until one answers. A server that takes long may
// still answer while the next is asked. One that refuses or fails is no reason to believe that the
// others do; its answer is returned if no other is better.
func (f *Forwarder) ask(ctx context.Context, g group, q *query) (*dns.Msg, error) {
	order := g.order()
	if len(order) == 0 {
		return nil, errNoServers
	}
	if g.down() {
		f.metrics.allDown.Inc()
	}
	var attempts sync.WaitGroup
	defer attempts.Wait()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	turns := max(len(order), maxAttempts)
	ended := make(chan attempt, turns)
	started, pending := 0, 0
	start := func() {
		u := order[started%len(order)]
		started, pending = started+1, pending+1
		attempts.Go(func() {
			answer, err := f.askOne(ctx, u, q)
			ended <- attempt{u, answer, err}
		})
	}
	start()
	patience := time.NewTicker(attemptTime)
	defer patience.Stop()
	var refused *dns.Msg
	var faults []error
	for pending > 0 {
		select {
		case <-patience.C:
			if started < turns {
				start()
			}
			continue
		case a := <-ended:
			pending--
			switch {
			case a.err != nil:
				faults = append(faults, fmt.Errorf("asking %s: %w", a.server.text, a.err))
			case conclusive(a.answer):
				return a.answer, nil
			default:
				refused = a.answer
			}
			if started < len(order) && ctx.Err() == nil {
				start()
				patience.Reset(attemptTime)
			}
		}
	}
	if refused != nil {
		return refused, nil
	}
	return nil, errors.Join(faults...)
}

// conclusive reports whether an answer says something about the name, not about the server.
func conclusive(answer *dns.Msg) bool {
	return answer.Rcode == dns.RcodeSuccess || answer.Rcode == dns.RcodeNameError
}

// askOne asks one server, and records how it is.
func (f *Forwarder) askOne(ctx context.Context, u *upstream, q *query) (*dns.Msg, error) {
	began := time.Now()
	answer, err := f.exchange(ctx, u.addr, q)
	if err == nil && answer.Rcode == dns.RcodeFormatError {
		// Old servers do not know EDNS0.
		plain := *q
		plain.plain = true
		answer, err = f.exchange(ctx, u.addr, &plain)
	}
	took := time.Since(began)
	if err != nil {
		// Another may have answered before this one could.
		if !errors.Is(ctx.Err(), context.Canceled) || took >= attemptTime {
			u.failures.Add(1)
		}
		return nil, err
	}
	u.failures.Store(0)
	f.metrics.observe(u.text, answer.Rcode, took)
	return answer, nil
}

// probe asks a server that is down whether it is up again: any answer will do.
func (f *Forwarder) probe(ctx context.Context, u *upstream) {
	defer u.probing.Store(false)
	root, err := wire.ParseName(".")
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if _, err := f.exchange(ctx, u.addr, &query{name: root, kind: dns.TypeNS}); err != nil {
		f.metrics.failedProbes.WithLabelValues(proxy, u.text).Inc()
		return
	}
	if u.failures.Swap(0) >= maxFailures {
		f.log.Info("a DNS server answers again", "server", u.text)
	}
}

// mark asks a server for its mark, which Looped recognizes if the question comes back.
func (f *Forwarder) mark(ctx context.Context, u *upstream) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	// What the server answers does not matter.
	_, _ = f.exchange(ctx, u.addr, &query{name: u.mark, kind: dns.TypeHINFO})
}
